// A cheap sum of bytes that tells other content from the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace kvcal {

/// Against damage and changes, not against malice: a sum of 64-bit words in which every position counts.
class Checksum {
 public:
  /// Pieces of a multiple of 8 bytes give the sum of the whole.
  void update(std::span<const std::byte> bytes) {
    for (; bytes.size() >= sizeof(uint64_t); bytes = bytes.subspan(sizeof(uint64_t))) {
      uint64_t word;
      std::memcpy(&word, bytes.data(), sizeof word);
      add(word);
    }
    for (const std::byte b : bytes) add(static_cast<uint64_t>(b));
  }
  uint64_t value() const { return state_; }

 private:
  void add(uint64_t word) {
    state_ = (state_ ^ word) * 0x9E3779B97F4A7C15u;
    state_ ^= state_ >> 29;
  }
  uint64_t state_ = 0;
};

}  // namespace kvcal
