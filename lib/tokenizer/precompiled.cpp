#include "tokenizer/precompiled.h"

#include <algorithm>

#include "base/error.h"
#include "unicode/grapheme.h"
#include "unicode/utf8.h"

namespace kvcal {
namespace {

constexpr size_t kShortGrapheme = 5;  // bytes

size_t code_points_in(std::string_view text) {
  size_t n = 0;
  for (char c : text) n += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return n;
}

// The rewritten text, and for runs of its characters how each of them changes the old text: 0 stands for the next
// character, 1 for none (it was inserted and stands where the one before it does), -n for the next one and the n behind
// it.
struct Rewritten {
  explicit Rewritten(const Allowance& a) : allowance(&a) {}

  struct Run {
    int32_t change;
    size_t characters;
  };
  const Allowance* allowance;
  std::string text;
  std::vector<Run> runs;
  bool modified = false;

  void keep(std::string_view character) {
    text += character;
    add_run(0, 1);
  }

  void replace(std::string_view old_part, std::string_view new_part) {
    allowance->check_size("Precompiled", text.size() + new_part.size());
    const size_t n_old = code_points_in(old_part), n_new = code_points_in(new_part);
    text += new_part;
    modified = true;
    add_run(0, std::min(n_old, n_new));
    if (n_new > n_old) add_run(1, n_new - n_old);
    if (n_new < n_old) remove_behind_last(static_cast<int32_t>(n_old - n_new));
  }

  // Bytes of the new text whose characters stand in the first `origin_bytes` bytes of the old one.
  size_t origin_in(std::string_view old_text, size_t origin_bytes) const {
    size_t read = 0, place = 0, written = 0;
    for (const Run& run : runs)
      for (size_t i = 0; i < run.characters; ++i) {
        // An inserted character stands where the last one that was read does.
        place = run.change <= 0 ? read : read == 0 ? 0 : read - 1;
        if (place >= origin_bytes) return written;
        for (int32_t n = run.change; n <= 0 && read < old_text.size(); ++n) read += utf8_length(old_text[read]);
        written += utf8_length(text[written]);
      }
    return written;
  }

 private:
  void add_run(int32_t change, size_t characters) {
    if (!runs.empty() && runs.back().change == change)
      runs.back().characters += characters;
    else if (characters > 0)
      runs.push_back({change, characters});
  }

  // Characters that vanish before anything was written are not counted, as in the reference.
  void remove_behind_last(int32_t characters) {
    if (runs.empty()) return;
    const int32_t change = runs.back().change - characters;
    if (--runs.back().characters == 0) runs.pop_back();
    add_run(change, 1);
  }
};

}  // namespace

void Precompiled::apply(TextSegment& s) const {
  Rewritten out(*s.allowance);
  out.text.reserve(s.text.size());
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
