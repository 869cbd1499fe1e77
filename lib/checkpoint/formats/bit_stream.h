// Integers of 1 to 8 bits one after the other in words of 32, lowest bits first; an element may straddle two words.
#pragma once

#include <cstdint>

namespace kvcal {

inline int64_t words_for(int64_t n, int64_t bits) { return (n * bits + 31) / 32; }

/// Element i, unsigned, of a stream whose words are `stride` apart.
inline int stream_element(const uint32_t* words, int64_t stride, int64_t i, int bits) {
  const int64_t first = i * bits, word = first / 32, shift = first % 32;
  uint64_t both = words[word * stride];
  if (shift + bits > 32) both |= uint64_t{words[(word + 1) * stride]} << 32;
  return static_cast<int>(both >> shift & ((1u << bits) - 1));
}

}  // namespace kvcal
