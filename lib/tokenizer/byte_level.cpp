#include "tokenizer/byte_level.h"

#include "unicode/utf8.h"

namespace kvcal {
namespace {

constexpr bool stands_for_itself(int b) { return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174; }

constexpr std::array<char32_t, 256> code_points() {
  std::array<char32_t, 256> codes{};
  char32_t next = 0x100;
  for (int b = 0; b < 256; ++b)
    codes[static_cast<size_t>(b)] = stands_for_itself(b) ? static_cast<char32_t>(b) : next++;
  return codes;
}

constexpr std::array<char32_t, 256> kCodePoints = code_points();

}  // namespace

const std::array<std::string, 256>& byte_symbols() {
  static const std::array<std::string, 256> symbols = [] {
    std::array<std::string, 256> s;
    for (size_t b = 0; b < 256; ++b) append_utf8(s[b], kCodePoints[b]);
    return s;
  }();
  return symbols;
}

int byte_of_symbol(char32_t symbol) {
  static const std::array<int, 0x200> bytes = [] {
    std::array<int, 0x200> t;
    t.fill(-1);
    for (size_t b = 0; b < 256; ++b) t[kCodePoints[b]] = static_cast<int>(b);
    return t;
  }();
  return symbol < bytes.size() ? bytes[symbol] : -1;
}

std::string to_byte_symbols(std::string_view text) {
  const auto& symbols = byte_symbols();
  std::string out;
  out.reserve(text.size() + text.size() / 2);
  for (char c : text) out += symbols[static_cast<unsigned char>(c)];
  return out;
}

}  // namespace kvcal
