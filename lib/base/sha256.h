// SHA-256 (FIPS 180-4): fingerprints of weights, configurations, prompts and plans.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace kvcal {

class Sha256 {
 public:
  void update(std::span<const std::byte> bytes);
  void update(std::string_view text) { update(std::as_bytes(std::span(text.data(), text.size()))); }

  /// Digest of everything so far as 64 lower-case hexadecimal digits; more may be added afterwards.
  std::string hex() const;

 private:
  void compress(const std::byte* block);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> pending_{};
  uint64_t n_bytes_ = 0;
};

std::string sha256_hex(std::string_view text);

/// Throws Error, which calls it `name`, for a text that is no digest as hex() gives it.
void check_digest(std::string_view name, std::string_view text);

}  // namespace kvcal
