// SentencePiece's "precompiled_charsmap": replacements of short strings, in a double array with the texts behind it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvcal {

/// Immutable after construction.
class Charsmap {
 public:
  /// Reads it as tokenizer.json has it: base64 of the length of the array in bytes (4 bytes, little-endian), the array
  /// and the texts, each ended by a zero byte. Throws Error: no base64, an array that is cut short or leads out of
  /// itself, texts that are no UTF-8, replacements that lie beyond them.
  explicit Charsmap(std::string_view base64);

  /// The replacement of the shortest string in the map that `text` begins with, whatever follows it.
  std::optional<std::string_view> replacement(std::string_view text) const;

 private:
  void check() const;

  std::vector<uint32_t> units_;
  std::string texts_;
};

}  // namespace kvcal
