#include "base/base64.h"

#include <cstdint>

namespace kvcal {
namespace {

int sextet(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

}  // namespace

std::optional<std::string> bytes_of_base64(std::string_view digits) {
  std::string bytes;
  bytes.reserve(digits.size() * 3 / 4);
  uint32_t bits = 0;
  int n_bits = 0;
  for (const char c : digits) {
    const int value = sextet(c);
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(value);
    n_bits += 6;
    if (n_bits < 8) continue;
    n_bits -= 8;
    bytes += static_cast<char>(bits >> n_bits & 0xFF);
  }
  return bytes;
}

}  // namespace kvcal
