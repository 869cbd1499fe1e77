// What a server answered, as its OpenAI-style JSON holds it: the text of each choice, with its tokens where they were
// asked for ("logprobs": true), and whether it answered at all.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvcal {

struct ResponseText {
  std::string text;                 // where there is no answer, the reasoning
  std::vector<std::string> tokens;  // of which the text is made; empty where the response does not say
  bool only_reasoning = false;      // thoughts, and neither an answer nor a call of a tool
  std::string finish_reason = "";
  /// Of tokens whose best values stand in the response as logits (positive, so no logarithms of probabilities) and are
  /// shared by two of the first five: the best value.
  std::vector<double> tied_logits = {};
};

/// Of chat completions and of completions. Empty for a text that is no such response: it is then the output itself.
std::vector<ResponseText> responses_in(std::string_view text);

/// Whether a text without choices is what a model wrote: neither empty nor the error of a server, a proxy or curl.
bool is_text_of_model(std::string_view text);

/// The token that holds this byte of the text; -1 where tokens are not known.
int64_t token_at(const ResponseText& response, size_t byte);

}  // namespace kvcal
