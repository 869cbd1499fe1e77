#include "base/lines.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>

namespace kvcal {
namespace {

struct Range {
  char32_t first, last;
};

// Control characters; separators of lines; Default_Ignorable_Code_Point and Bidi_Control of Unicode 15; U+FFF9 to
// U+FFFB.
constexpr std::array kUnseen = std::to_array<Range>({
    {0x00, 0x1F},     {0x7F, 0x9F},       {0xAD, 0xAD},       {0x34F, 0x34F},     {0x61C, 0x61C},
    {0x115F, 0x1160}, {0x17B4, 0x17B5},   {0x180B, 0x180F},   {0x200B, 0x200F},   {0x2028, 0x202E},
    {0x2060, 0x206F}, {0x3164, 0x3164},   {0xFE00, 0xFE0F},   {0xFEFF, 0xFEFF},   {0xFFA0, 0xFFA0},
    {0xFFF0, 0xFFFB}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF},
});

bool is_unseen(char32_t c) {
  return std::ranges::any_of(kUnseen, [c](const Range& r) { return r.first <= c && c <= r.last; });
}

bool is_joiner(char32_t c) { return c == 0x200C || c == 0x200D; }
bool is_variation(char32_t c) {
  return (0xFE00 <= c && c <= 0xFE0F) || (0x180B <= c && c <= 0x180D) || (0xE0100 <= c && c <= 0xE01EF);
}

// White_Space of Unicode: what GitHub's runner skips before it looks for "::".
bool is_space(char32_t c) {
  return c == ' ' || (0x09 <= c && c <= 0x0D) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (0x2000 <= c && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

struct Character {
  char32_t code = 0;
  size_t length = 1;  // bytes
  bool valid = false;
};

// At the beginning of `text`, which is not empty.
Character first_of(std::string_view text) {
  const auto byte = [&](size_t k) { return static_cast<unsigned char>(text[k]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  const size_t n = lead >= 0xC2 && lead < 0xE0   ? 2
                   : lead >= 0xE0 && lead < 0xF0 ? 3
                   : lead >= 0xF0 && lead < 0xF5 ? 4
                                                 : 0;
  if (n == 0 || n > text.size()) return {lead};
  char32_t code = lead & (0x7Fu >> n);
  for (size_t k = 1; k < n; ++k) {
    if ((byte(k) & 0xC0) != 0x80) return {lead};
    code = code << 6 | (byte(k) & 0x3Fu);
  }
  constexpr std::array<char32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kLeast[n] || code > 0x10FFFF || (0xD800 <= code && code <= 0xDFFF)) return {lead};
  return {code, n, true};
}

// "##[" or "##word[".
bool begins_command(std::string_view text) {
  if (!text.starts_with("##")) return false;
  const size_t end = std::find_if_not(text.begin() + 2, text.end(),
                                      [](char c) { return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z'); }) -
                     text.begin();
  return end < text.size() && text[end] == '[';
}

std::string hexadecimal(const char* format, uint32_t value) {
  std::array<char, 16> text;
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

std::string escape_of(const Character& c) {
  if (!c.valid || c.code < 0x80) return hexadecimal("\\x%02x", c.code);
  return hexadecimal(c.code > 0xFFFF ? "\\u{%x}" : "\\u%04x", c.code);
}

std::string json_escape_of(const Character& c) {
  if (c.code <= 0xFFFF) return hexadecimal("\\u%04x", c.code);
  return hexadecimal("\\u%04x", 0xD7C0 + (c.code >> 10)) + hexadecimal("\\u%04x", 0xDC00 + (c.code & 0x3FF));
}

// Characters of ASCII in `stay` are left as they are.
template <class Escape>
std::string escaped(std::string_view text, std::string_view stay, Escape&& escape) {
  // Nearly all text is plain.
  if (std::ranges::all_of(text, [](char c) { return 0x20 <= c && c < 0x7F && c != '#'; })) return std::string(text);
  std::string out;
  out.reserve(text.size());
  char32_t before = 0;  // the character before, 0 where it was escaped
  for (size_t i = 0; i < text.size();) {
    const Character c = first_of(text.substr(i));
    const bool belongs =
        before >= 0x80 && !is_joiner(before) && (is_joiner(c.code) || (is_variation(c.code) && !is_variation(before)));
    const bool stays = c.code < 0x80 && stay.find(static_cast<char>(c.code)) != std::string_view::npos;
    if (c.valid && (belongs || stays || !is_unseen(c.code))) {
      out.append(text, i, c.length);
      before = c.code;
      if (begins_command(text.substr(i))) out += escape(Character{'#', 1, true}), ++i;
    } else {
      out += escape(c);
      before = 0;
    }
    i += c.valid ? c.length : 1;
  }
  return out;
}

// A line that GitHub's runner would take for a command, told apart by what it is not: its first colon.
std::string harmless(std::string line) {
  size_t i = 0;
  while (i < line.size()) {
    const Character c = first_of(std::string_view(line).substr(i));
    if (!c.valid || !is_space(c.code)) break;
    i += c.length;
  }
  if (line.compare(i, 2, "::") == 0) line.replace(i, 1, "\\x3a");
  return line;
}

// GitHub's escapes: of properties also ':' and ','. A line break in a property is part of a file's name; in a message
// it would only be somebody's attempt at a line of his own.
std::string annotation_text(std::string_view text, bool property) {
  const std::string_view all = property ? "%\r\n:," : "%";
  std::string out;
  for (const char c : text)
    if (all.find(c) != std::string_view::npos)
      out += hexadecimal("%%%02X", static_cast<unsigned char>(c));
    else
      out += c;
  return printable(out);
}

}  // namespace

std::string printable(std::string_view text) { return escaped(text, "", escape_of); }

std::string printable_json(std::string_view json) { return escaped(json, "\n", json_escape_of); }

Lines Lines::of_text(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.text_ += harmless(escaped(text.substr(0, end), "\t", escape_of)) + '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

Lines Lines::of_annotation(const Annotation& a) {
  Lines lines;
  lines.text_ = "::" + printable(a.level) + " file=" + annotation_text(a.file, true) +
                ",line=" + std::to_string(a.line) + ",title=" + annotation_text(a.title, true) +
                "::" + annotation_text(a.message, false) + "\n";
  return lines;
}

void Lines::add(std::string_view line) { text_ += harmless(printable(line)) + '\n'; }

Lines& Lines::operator+=(const Lines& more) {
  text_ += more.text_;
  return *this;
}

}  // namespace kvcal
