// What a server answered, as its OpenAI-style JSON holds it: the text of each choice, with its tokens where they were
// asked for ("logprobs": true).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvcal {

struct ResponseText {
  std::string text;
  std::vector<std::string> tokens;  // of which the text is made; empty where the response does not say
};

/// Of chat completions and of completions. Empty for a text that is no such response: it is then the output itself.
std::vector<ResponseText> responses_in(std::string_view text);

/// The token that holds this byte of the text; -1 where tokens are not known.
int64_t token_at(const ResponseText& response, size_t byte);

}  // namespace kvcal
