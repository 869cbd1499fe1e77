// Whether a sample of a model's output shows signs of broken numbers: one repeated character, a loop, token soup.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvcal {

struct OutputTrouble {
  enum class Kind : uint8_t { OneCharacter, Loop, Soup };
  Kind kind;
  std::string file;    // set by whoever read the sample
  size_t line = 0;     // where it begins, from 1
  size_t at_byte = 0;  // of the sample
  std::string unit;    // what repeats; "" for soup
  size_t n_repeats = 0;
  int64_t at_token = -1;  // where it begins, when the response has its tokens
};

/// At most one trouble of each kind, the longest. Looks at the last `kMostOutputBytes` of the sample: loops end a text.
/// Rulers, tables, indentation and the zeros of encoded data are no trouble.
constexpr size_t kMostOutputBytes = size_t{1} << 20;
std::vector<OutputTrouble> examine_output(std::string_view text);

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
