#include "tokenizer/charsmap.h"

#include "base/base64.h"
#include "base/error.h"
#include "unicode/utf8.h"

namespace kvcal {
namespace {

std::string decode_base64(std::string_view text) {
  const size_t size = text.size();
  while (!text.empty() && size - text.size() < 2 && text.back() == '=') text.remove_suffix(1);
  const std::optional<std::string> bytes = bytes_of_base64(text);
  if (!bytes || (!text.empty() && size % 4 != 0)) fail("precompiled_charsmap is not base64");
  return *bytes;
}

uint32_t little_endian(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t k = 4; k-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[at + k]);
  return value;
}

// A unit of the array, as the darts-clone library writes it. A state is an index; state ^ byte is where its unit for
// that byte would be, which is there if it has that byte as its label; the unit's index ^ offset is the next state. The
// unit at a state itself holds its value, if the unit that led there says that there is one.
constexpr uint32_t kIsValue = uint32_t{1} << 31;
bool has_value(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t value_of(uint32_t unit) { return unit & ~kIsValue; }
uint32_t label_of(uint32_t unit) { return unit & (kIsValue | 0xFF); }
uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit >> 9 & 1) * 8); }

}  // namespace

Charsmap::Charsmap(std::string_view base64) {
  const std::string bytes = decode_base64(base64);
  const size_t array_bytes = bytes.size() < 4 ? 0 : little_endian(bytes, 0) / 4 * size_t{4};
  if (array_bytes == 0 || array_bytes > bytes.size() - 4)
    fail("precompiled_charsmap has " + std::to_string(bytes.size()) + " bytes, expected an array of " +
         std::to_string(array_bytes) + " and texts: is the file truncated?");
  units_.reserve(array_bytes / 4);
  for (size_t i = 0; i < array_bytes; i += 4) units_.push_back(little_endian(bytes, 4 + i));
  texts_ = bytes.substr(4 + array_bytes);
  check();
}

// After this no look-up can leave the array or the texts: every state that a unit leads to has its whole block of 256.
void Charsmap::check() const {
  if (repair_utf8(texts_).replaced > 0) fail("precompiled_charsmap has texts that are not UTF-8");
  const auto is_boundary = [&](size_t i) {
    return i == texts_.size() || (i < texts_.size() && (static_cast<unsigned char>(texts_[i]) & 0xC0) != 0x80);
  };
  // The root is followed by whatever is looked up, unlike all others without a comparison of its label.
  if ((units_[0] & kIsValue) != 0) fail("precompiled_charsmap is damaged: its array begins with a value");
  for (size_t i = 0; i < units_.size(); ++i) {
    const uint32_t unit = units_[i];
    if ((unit & kIsValue) != 0) {
      if (!is_boundary(value_of(unit)))
        fail("precompiled_charsmap is damaged: a replacement lies outside of its texts");
      continue;
    }
    const size_t state = i ^ offset_of(unit);
    const bool inside = (state | 0xFF) < units_.size();
    if (!inside || (has_value(unit) && (units_[state] & kIsValue) == 0))
      fail("precompiled_charsmap is damaged: its array leads nowhere");
  }
}

std::optional<std::string_view> Charsmap::replacement(std::string_view text) const {
  size_t state = offset_of(units_[0]);
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == 0) return std::nullopt;
    const size_t at = state ^ byte;
    const uint32_t unit = units_[at];
    if (label_of(unit) != byte) return std::nullopt;
    state = at ^ offset_of(unit);
    if (!has_value(unit)) continue;
    const std::string_view found = std::string_view(texts_).substr(value_of(units_[state]));
    return found.substr(0, found.find('\0'));
  }
  return std::nullopt;
}

}  // namespace kvcal
