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
  size_t n_bytes = 0;  // how far it goes
  std::string unit;    // what repeats; "" for soup
  size_t n_repeats = 0;
  int64_t at_token = -1;  // where it begins, when the response has its tokens
};

/// At most one trouble of each kind, the longest. Looks at the last `kMostOutputBytes` of the sample: loops end a text.
/// Rulers, tables, indentation and the zeros of encoded data are no trouble.
constexpr size_t kMostOutputBytes = size_t{1} << 20;
std::vector<OutputTrouble> examine_output(std::string_view text);

}  // namespace kvcal
