#include "base/base64.h"

#include <algorithm>
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

std::string base64_of(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string digits;
  digits.reserve((bytes.size() + 2) / 3 * 4);
  for (; !bytes.empty(); bytes.remove_prefix(std::min<size_t>(bytes.size(), 3))) {
    uint32_t bits = 0;
    for (size_t i = 0; i < 3; ++i) bits = bits << 8 | (i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0U);
    for (size_t i = 0; i < 4; ++i) digits += i <= bytes.size() ? kDigits[bits >> (18 - 6 * i) & 63] : '=';
  }
  return digits;
}

}  // namespace kvcal
