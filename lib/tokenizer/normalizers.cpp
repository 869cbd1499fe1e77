#include "tokenizer/normalizers.h"

#include <optional>

#include "tokenizer/byte_level.h"
#include "tokenizer/component.h"
#include "tokenizer/precompiled.h"
#include "unicode/unicode.h"
#include "unicode/utf8.h"

namespace kvcal {
namespace {

// Rewrites the text by a function that treats its parts alike wherever they stand.
template <class F>
void rewrite(TextSegment& s, F&& f) {
  const size_t origin_bytes = s.origin_bytes == 0 ? 0 : f(std::string_view(s.text).substr(0, s.origin_bytes)).size();
  s.text = f(s.text);
  s.origin_bytes = origin_bytes;
}

class UnicodeForm final : public Normalizer {
 public:
  explicit UnicodeForm(NormalForm form) : form_(form) {}
  void apply(TextSegment& s) const override {
    std::string text = to_normal_form(s.text, form_);
    if (text == s.text) return;
    if (s.origin_bytes > 0) {
      // The origin becomes what it would become alone, or the first character where it composes with what follows.
      const std::string alone = to_normal_form(std::string_view(s.text).substr(0, s.origin_bytes), form_);
      s.origin_bytes = text.starts_with(alone) ? alone.size() : utf8_length(text[0]);
    }
    s.text = std::move(text);
  }

 private:
  NormalForm form_;
};

class Lowercase final : public Normalizer {
 public:
  void apply(TextSegment& s) const override { rewrite(s, to_lower_per_code_point); }
};

class ByteLevelNormalizer final : public Normalizer {
 public:
  void apply(TextSegment& s) const override { rewrite(s, to_byte_symbols); }
};

// Replaces each character by what `f` appends for it.
class ForEachCharacter final : public Normalizer {
 public:
  using Append = void (*)(std::string_view character, char32_t code, std::string& out);
  explicit ForEachCharacter(Append append) : append_(append) {}
  void apply(TextSegment& s) const override {
    rewrite(s, [&](std::string_view text) {
      std::string out;
      out.reserve(text.size());
      for (size_t i = 0; i < text.size();) {
        const size_t begin = i;
        const char32_t code = next_code_point(text, i);
        append_(text.substr(begin, i - begin), code, out);
      }
      return out;
    });
  }

 private:
  Append append_;
};

void strip_accents(std::string_view character, char32_t code, std::string& out) {
  if (!is_combining_mark(code)) out += character;
}

void strip_nonspacing(std::string_view character, char32_t code, std::string& out) {
  if (!is_nonspacing_mark(code)) out += character;
}

// Drops control characters and makes spaces of other white space and of what looks like none.
void clean_nmt(std::string_view character, char32_t c, std::string& out) {
  const bool dropped = (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
  const bool space = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
                     c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
  if (!dropped) out += space ? " " : character;
}

void clean_bert(std::string_view character, char32_t c, std::string& out) {
  if (c == 9 || c == 0xA || c == 0xD)
    out += ' ';
  else if (c != 0 && c != 0xFFFD && !is_control(c))
    out += is_white_space(c) ? " " : character;
}

void space_chinese(std::string_view character, char32_t c, std::string& out) {
  const bool chinese = (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0xF900 && c <= 0xFAFF) ||
                       (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B81F) ||
                       (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0x2F800 && c <= 0x2FA1F);
  if (chinese) out += ' ';
  out += character;
  if (chinese) out += ' ';
}

class Strip final : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  void apply(TextSegment& s) const override {
    const size_t begin = left_ ? leading_white_space(s.text) : 0;
    if (begin > 0) s.origin_bytes = 0;
    s.text.erase(0, begin);
    if (right_) s.text.resize(s.text.size() - trailing_white_space(s.text));
  }

 private:
  bool left_, right_;
};

class Prepend final : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  void apply(TextSegment& s) const override {
    if (s.text.empty()) return;
    s.allowance->check_size("Prepend", s.text.size() + prefix_.size());
    s.text.insert(0, prefix_);
    if (s.origin_bytes > 0) s.origin_bytes += prefix_.size();
  }

 private:
  std::string prefix_;
};

class Replace final : public Normalizer {
 public:
  Replace(const Pattern& pattern, std::string content) : literal_(pattern.text), content_(std::move(content)) {
    if (pattern.is_regex) regex_.emplace(pattern.text);
  }

  void apply(TextSegment& s) const override {
    const std::vector<ByteRange> matches =
        regex_ ? regex_->find_all(s.text, *s.allowance) : find_all_literal(s.text, literal_);
    if (matches.empty() || s.text.empty()) return;
    s.allowance->check_size("Replace", s.text.size() + matches.size() * content_.size());
    std::string out;
    out.reserve(s.text.size());
    size_t previous = 0, origin = 0;
    for (const ByteRange& m : matches) {
      out.append(s.text, previous, m.begin - previous);
      // New characters stand where the last replaced one stood.
      const bool at_origin = m.end == 0 ? s.origin_bytes > 0 : m.end - 1 < s.origin_bytes;
      origin += std::min(m.begin, s.origin_bytes) - std::min(previous, s.origin_bytes);
      if (at_origin) origin += content_.size();
      out += content_;
      previous = m.end;
    }
    origin += s.origin_bytes - std::min(previous, s.origin_bytes);
    out.append(s.text, previous);
    s.text = std::move(out);
    s.origin_bytes = origin;
  }

 private:
  std::string literal_;
  std::string content_;
  std::optional<Regex> regex_;
};

class NormalizerSequence final : public Normalizer {
 public:
  NormalizerSequence() = default;
  explicit NormalizerSequence(const Json& list) : steps_(make_steps<Normalizer>(list, make_normalizer)) {}
  void add(std::unique_ptr<Normalizer> step) { steps_.push_back(std::move(step)); }
  void apply(TextSegment& s) const override {
    for (const auto& step : steps_) {
      s.allowance->look_at(s.text.size() + 1);
      step->apply(s);
      s.allowance->check_size("normalizer", s.text.size());
    }
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> steps_;
};

std::unique_ptr<Normalizer> make_bert(const Json& j) {
  auto steps = std::make_unique<NormalizerSequence>();
  const bool lowercase = get_bool_or(j, "lowercase", true);
  if (get_bool_or(j, "clean_text", true)) steps->add(std::make_unique<ForEachCharacter>(clean_bert));
  if (get_bool_or(j, "handle_chinese_chars", true)) steps->add(std::make_unique<ForEachCharacter>(space_chinese));
  if (get_bool_or(j, "strip_accents", lowercase)) {
    steps->add(std::make_unique<UnicodeForm>(NormalForm::NFD));
    steps->add(std::make_unique<ForEachCharacter>(strip_nonspacing));
  }
  if (lowercase) steps->add(std::make_unique<Lowercase>());
  return steps;
}

}  // namespace

std::unique_ptr<Normalizer> make_normalizer(const Json& j) {
  if (j.is_null()) return nullptr;
  const std::string type = component_type(j, "normalizer");
  if (type == "NFC") return std::make_unique<UnicodeForm>(NormalForm::NFC);
  if (type == "NFD") return std::make_unique<UnicodeForm>(NormalForm::NFD);
  if (type == "NFKC") return std::make_unique<UnicodeForm>(NormalForm::NFKC);
  if (type == "NFKD") return std::make_unique<UnicodeForm>(NormalForm::NFKD);
  if (type == "Lowercase") return std::make_unique<Lowercase>();
  if (type == "StripAccents") return std::make_unique<ForEachCharacter>(strip_accents);
  if (type == "ByteLevel") return std::make_unique<ByteLevelNormalizer>();
  if (type == "Strip")
    return std::make_unique<Strip>(get_bool_or(j, "strip_left", true), get_bool_or(j, "strip_right", true));
  if (type == "Prepend") return std::make_unique<Prepend>(get_string(j, "prepend"));
  if (type == "Nmt") return std::make_unique<ForEachCharacter>(clean_nmt);
  if (type == "BertNormalizer") return make_bert(j);
  if (type == "Precompiled") return std::make_unique<Precompiled>(get_string(j, "precompiled_charsmap"));
  if (type == "Replace") return std::make_unique<Replace>(get_pattern(j), get_string(j, "content"));
  if (type == "Sequence") return std::make_unique<NormalizerSequence>(component_list(j, "normalizers"));
  fail_unsupported("normalizer", type,
                   {"NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Strip", "StripAccents", "Prepend", "Replace",
                    "ByteLevel", "Nmt", "Precompiled", "BertNormalizer", "Sequence"});
}

}  // namespace kvcal
