#include "prompts/haystack.h"

#include <algorithm>
#include <span>

#include "base/error.h"
#include "prompts/prompt_record.h"
#include "unicode/grapheme.h"
#include "unicode/unicode.h"
#include "unicode/utf8.h"

namespace kvcal {
namespace {

constexpr size_t kLongestWord = 64;  // bytes
// From here on scripts have no spaces between words: CJK, kana. Thai and its like are cut as long words.
constexpr char32_t kFirstWithoutSpaces = 0x2E80;
constexpr const char* kBetweenPrompts = "\n\n";

std::string_view trimmed(std::string_view text) {
  text.remove_prefix(leading_white_space(text));
  text.remove_suffix(trailing_white_space(text));
  return text;
}

void append(std::string& out, std::string_view part, std::string_view separator) {
  part = trimmed(part);
  if (part.empty()) return;
  if (!out.empty()) out += separator;
  out += part;
}

/// A message's content: text, or a list of parts of which some have text.
std::string said_in(const Json& message) {
  const Json* content = find_member(message, "content");
  if (content == nullptr) return "";
  if (content->is_string()) return content->get<std::string>();
  std::string out;
  if (content->is_array())
    for (const Json& part : *content)
      if (const Json* text = part.is_object() ? find_member(part, "text") : nullptr; text && text->is_string())
        append(out, text->get<std::string>(), "\n");
  return out;
}

bool is_space(char32_t c) { return is_white_space(c); }

/// Ends a sentence, in any script that marks it so.
bool ends_sentence(char32_t c) {
  return c == U'.' || c == U'!' || c == U'?' || c == U'\u3002' || c == U'\uFF01' || c == U'\uFF1F';
}

/// The element nearest to `at`; of equal ones the first.
size_t nearest(std::span<const size_t> ascending, size_t at) {
  const auto above = std::ranges::lower_bound(ascending, at);
  if (above == ascending.begin()) return *above;
  const size_t below = *(above - 1);
  return above != ascending.end() && *above - at < at - below ? *above : below;
}

}  // namespace

std::string plain_text_of(const PromptRecord& record) {
  if (record.kind != PromptKind::Chat) return record.text;
  std::string out;
  for (const Json& message : record.messages) append(out, said_in(message), "\n");
  return out;
}

void make_chats_plain(PromptSet& set) {
  size_t n = 0;
  for (PromptRecord& r : set.records) {
    if (r.kind != PromptKind::Chat) continue;
    const PromptRecord plain = text_record(plain_text_of(r));
    r.kind = plain.kind;
    r.text = plain.text;
    r.canonical = plain.canonical;
    r.messages = r.tools = nullptr;
    ++n;
  }
  if (n > 0)
    set.notes.push_back("the model has no chat template: what " + std::to_string(n) + " of the " +
                        std::to_string(set.records.size()) + " shipped prompts say in messages is fed as raw text");
}

std::string joined_text(const PromptSet& set, size_t max_bytes) {
  std::vector<const PromptRecord*> records;
  for (const PromptRecord& r : set.records) records.push_back(&r);
  std::ranges::sort(records, {}, &PromptRecord::id);
  std::string text;
  for (const PromptRecord* r : records) {
    append(text, repair_utf8(plain_text_of(*r)).text, kBetweenPrompts);
    if (text.size() < max_bytes) continue;
    while ((static_cast<unsigned char>(text[max_bytes]) & 0xC0U) == 0x80) --max_bytes;  // inside a code point
    text.resize(max_bytes);
    break;
  }
  if (text.empty()) fail("no text in the prompts");
  return text;
}

Haystack::Haystack(const std::string& text, size_t min_bytes) : text_(text) {
  while (text_.size() < min_bytes) text_ += kBetweenPrompts + text;
  size_t at = 0, word = 0;
  char32_t before = U' ';
  for_each_grapheme(text_, [&](std::string_view character) {
    size_t first = 0;
    const char32_t c = next_code_point(character, first);
    const bool behind_word = is_space(c) && !is_space(before);
    if (behind_word || before >= kFirstWithoutSpaces || at - word >= kLongestWord) {
      if (at > 0) cuts_.push_back(at);
      if (at > 0 && (c == U'\n' || (behind_word && ends_sentence(before)) ||
                     (before >= kFirstWithoutSpaces && ends_sentence(before))))
        sentences_.push_back(at);
      word = at;
    }
    if (is_space(c)) word = at + character.size();
    at += character.size();
    before = c;
  });
  cuts_.push_back(text_.size());
}

size_t Haystack::place(size_t cut, int64_t percent) const {
  const size_t end = cuts_[cut];
  if (percent <= 0) return 0;
  if (percent >= 100) return end;
  const size_t wanted = end * static_cast<size_t>(percent) / 100;
  const auto last = std::ranges::lower_bound(sentences_, end);
  if (last != sentences_.begin()) {
    const size_t sentence = nearest(std::span(sentences_.begin(), last), wanted);
    if (std::max(sentence, wanted) - std::min(sentence, wanted) <= end / 20) return sentence;
  }
  return nearest(std::span(cuts_).first(cut + 1), wanted);
}

}  // namespace kvcal
