#include "unicode/utf8.h"

namespace kvcal {
namespace {

struct Sequence {
  size_t bytes;  // how many bytes belong together
  bool valid;
};

// The longest prefix that could begin a character, and whether it is a whole one: WHATWG's decoder, which moves its
// lower and upper bounds for the second byte to keep out overlong forms, surrogates and code points past U+10FFFF.
Sequence sequence_at(std::string_view s, size_t i) {
  const auto byte = [&](size_t k) { return static_cast<unsigned char>(s[k]); };
  const unsigned char lead = byte(i);
  if (lead < 0x80) return {1, true};
  size_t needed = 0;
  unsigned char lower = 0x80, upper = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    needed = 1;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    needed = 2;
    if (lead == 0xE0) lower = 0xA0;
    if (lead == 0xED) upper = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    needed = 3;
    if (lead == 0xF0) lower = 0x90;
    if (lead == 0xF4) upper = 0x8F;
  } else {
    return {1, false};
  }
  for (size_t k = 1; k <= needed; ++k) {
    if (i + k >= s.size() || byte(i + k) < lower || byte(i + k) > upper) return {k, false};
    lower = 0x80;
    upper = 0xBF;
  }
  return {needed + 1, true};
}

}  // namespace

RepairedText repair_utf8(std::string_view bytes) {
  RepairedText out;
  out.text.reserve(bytes.size());
  for (size_t i = 0; i < bytes.size();) {
    const Sequence q = sequence_at(bytes, i);
    if (q.valid) {
      out.text.append(bytes.substr(i, q.bytes));
    } else {
      out.text += "\xEF\xBF\xBD";
      ++out.replaced;
    }
    i += q.bytes;
  }
  return out;
}

char32_t next_code_point(std::string_view text, size_t& i) {
  const auto byte = [&](size_t k) { return static_cast<char32_t>(static_cast<unsigned char>(text[k])); };
  const char32_t lead = byte(i);
  const size_t n = utf8_length(text[i]);
  char32_t code = n == 1 ? lead : n == 2 ? lead & 0x1F : n == 3 ? lead & 0x0F : lead & 0x07;
  for (size_t k = 1; k < n; ++k) code = (code << 6) | (byte(i + k) & 0x3F);
  i += n;
  return code;
}

void append_utf8(std::string& out, char32_t c) {
  const auto put = [&](char32_t b) { out += static_cast<char>(b); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | (c >> 6));
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | (c >> 12));
    put(0x80 | ((c >> 6) & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | (c >> 18));
    put(0x80 | ((c >> 12) & 0x3F));
    put(0x80 | ((c >> 6) & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

std::u32string to_code_points(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) out += next_code_point(text, i);
  return out;
}

std::string from_code_points(std::u32string_view codes) {
  std::string out;
  out.reserve(codes.size());
  for (char32_t c : codes) append_utf8(out, c);
  return out;
}

}  // namespace kvcal
