#include "text/precompiled.h"

#include "text/grapheme.h"
#include "text/utf8.h"

namespace kvcal {
namespace {

constexpr size_t kShortGrapheme = 5;  // bytes

size_t code_points_in(std::string_view text) {
  size_t n = 0;
  for (char c : text) n += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return n;
}

// The rewritten text, and which characters of the old text each of its characters stands for: 0 for the next one, 1 for
// none (it was inserted and stands where the one before it does), -n for the next one and the n behind it.
struct Rewritten {
  std::string text;
  std::vector<int32_t> changes;  // one per character
  bool modified = false;

  void keep(std::string_view character) {
    text += character;
    changes.push_back(0);
  }

  // Characters that vanish before anything was written are not counted, as in the reference.
  void replace(std::string_view old_part, std::string_view new_part) {
    const auto n_old = static_cast<int32_t>(code_points_in(old_part));
    const auto n_new = static_cast<int32_t>(code_points_in(new_part));
    text += new_part;
    modified = true;
    for (int32_t i = 0; i < n_new; ++i) changes.push_back(i < n_old ? 0 : 1);
    if (n_new < n_old && !changes.empty()) changes.back() -= n_old - n_new;
  }

  // Bytes of the new text whose characters stand in the first `origin_bytes` bytes of the old one.
  size_t origin_in(std::string_view old_text, size_t origin_bytes) const {
    size_t read = 0, last = 0, written = 0;
    for (int32_t change : changes) {
      if (change <= 0) {
        last = read;
        for (int32_t n = change; n <= 0 && read < old_text.size(); ++n) read += utf8_length(old_text[read]);
      } else {
        // An inserted character stands where the last one that was read does.
        last = read == 0 ? 0 : read - 1;
      }
      if (last >= origin_bytes) break;
      written += utf8_length(text[written]);
    }
    return written;
  }
};

}  // namespace

void Precompiled::apply(Segment& s) const {
  Rewritten out;
  out.text.reserve(s.text.size());
  out.changes.reserve(s.text.size());
  for_each_grapheme(s.text, [&](std::string_view grapheme) {
    if (grapheme.size() <= kShortGrapheme)
      if (const auto replacement = charsmap_.replacement(grapheme)) return out.replace(grapheme, *replacement);
    for (size_t i = 0; i < grapheme.size();) {
      const std::string_view character = grapheme.substr(i, utf8_length(grapheme[i]));
      if (const auto replacement = charsmap_.replacement(character))
        out.replace(character, *replacement);
      else
        out.keep(character);
      i += character.size();
    }
  });
  if (!out.modified) return;
  s.origin_bytes = out.origin_in(s.text, s.origin_bytes);
  s.text = std::move(out.text);
}

}  // namespace kvcal
