#include "tokenizer/pre_tokenizers.h"

#include <functional>
#include <optional>

#include "tokenizer/byte_level.h"
#include "tokenizer/component.h"
#include "unicode/unicode.h"
#include "unicode/utf8.h"

namespace kvcal {
namespace {

// Cuts every piece at what `find` returns for it.
template <class Find>
void split_pieces(TextSegment& s, SplitBehavior behavior, bool invert, Find&& find) {
  std::vector<ByteRange> pieces;
  pieces.reserve(s.pieces.size());
  for (const ByteRange& p : s.pieces) {
    const std::string_view text = s.piece(p);
    append_split(find(text), text.size(), behavior, invert, p.begin, pieces);
  }
  s.pieces = std::move(pieces);
}

// Rewrites every piece through `rewrite(piece, at_origin)`. The first character keeps standing for the origin.
template <class Rewrite>
void rewrite_pieces(TextSegment& s, Rewrite&& rewrite) {
  TextSegment out(*s.allowance);
  out.text.reserve(s.text.size() * 3 / 2);
  out.pieces.reserve(s.pieces.size());
  for (const ByteRange& p : s.pieces) {
    const size_t begin = out.text.size();
    const bool at_origin = s.at_origin(p);
    rewrite(s.piece(p), at_origin, out.text);
    if (at_origin && begin < out.text.size()) out.origin_bytes = begin + utf8_length(out.text[begin]);
    if (out.text.size() > begin) out.pieces.push_back({begin, out.text.size()});
  }
  s = std::move(out);
}

std::vector<ByteRange> matching_characters(std::string_view text, const std::function<bool(char32_t)>& matches) {
  std::vector<ByteRange> found;
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i;
    if (matches(next_code_point(text, i))) found.push_back({begin, i});
  }
  return found;
}

SplitBehavior parse_behavior(const std::string& name) {
  if (name == "Removed" || name == "removed") return SplitBehavior::Removed;
  if (name == "Isolated" || name == "isolated") return SplitBehavior::Isolated;
  if (name == "MergedWithPrevious" || name == "merged_with_previous") return SplitBehavior::MergedWithPrevious;
  if (name == "MergedWithNext" || name == "merged_with_next") return SplitBehavior::MergedWithNext;
  if (name == "Contiguous" || name == "contiguous") return SplitBehavior::Contiguous;
  const std::vector<std::string> known{"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
  fail_unknown("split behavior", name, known);
}

class Split final : public PreTokenizer {
 public:
  explicit Split(const Json& j) : behavior_(parse_behavior(get_string(j, "behavior"))) {
    const Pattern pattern = get_pattern(j);
    invert_ = get_bool_or(j, "invert", false);
    literal_ = pattern.text;
    if (pattern.is_regex) regex_.emplace(pattern.text);
  }
  void apply(TextSegment& s) const override {
    split_pieces(s, behavior_, invert_, [&](std::string_view t) {
      return regex_ ? regex_->find_all(t, *s.allowance) : find_all_literal(t, literal_);
    });
  }

 private:
  SplitBehavior behavior_;
  bool invert_ = false;
  std::string literal_;
  std::optional<Regex> regex_;
};

// Pieces cut at single characters that have a property.
class SplitCharacters final : public PreTokenizer {
 public:
  SplitCharacters(std::function<bool(char32_t)> matches, SplitBehavior behavior)
      : matches_(std::move(matches)), behavior_(behavior) {}
  void apply(TextSegment& s) const override {
    split_pieces(s, behavior_, false, [&](std::string_view t) { return matching_characters(t, matches_); });
  }

 private:
  std::function<bool(char32_t)> matches_;
  SplitBehavior behavior_;
};

// Runs of word characters and runs of what is neither word nor white space, \w+|[^\w\s]+.
class Whitespace final : public PreTokenizer {
 public:
  void apply(TextSegment& s) const override {
    split_pieces(s, SplitBehavior::Removed, true, [](std::string_view t) {
      std::vector<ByteRange> runs;
      int previous = 0;
      for (size_t i = 0; i < t.size();) {
        const size_t begin = i;
        const char32_t c = next_code_point(t, i);
        const int kind = is_word(c) ? 1 : is_white_space(c) ? 0 : 2;
        if (kind != 0 && kind == previous)
          runs.back().end = i;
        else if (kind != 0)
          runs.push_back({begin, i});
        previous = kind;
      }
      return runs;
    });
  }
};

class ByteLevel final : public PreTokenizer {
 public:
  explicit ByteLevel(const Json& j) : add_prefix_space_(get_bool_or(j, "add_prefix_space", true)) {
    if (get_bool_or(j, "use_regex", true)) regex_.emplace(kGpt2Pattern);
  }
  void apply(TextSegment& s) const override {
    if (add_prefix_space_)
      rewrite_pieces(s, [](std::string_view piece, bool, std::string& out) {
        if (!piece.starts_with(' ')) out += ' ';
        out += piece;
      });
    if (regex_)
      split_pieces(s, SplitBehavior::Isolated, false,
                   [&](std::string_view t) { return regex_->find_all(t, *s.allowance); });
    rewrite_pieces(s, [](std::string_view piece, bool, std::string& out) {
      const auto& symbols = byte_symbols();
      for (char c : piece) out += symbols[static_cast<unsigned char>(c)];
    });
  }

 private:
  bool add_prefix_space_;
  std::optional<Regex> regex_;
};

class Metaspace final : public PreTokenizer {
 public:
  explicit Metaspace(const Json& j) : split_(get_bool_or(j, "split", true)) {
    append_utf8(replacement_, get_code_point(j, "replacement"));
    const std::string scheme = get_string_or(j, "prepend_scheme", "always");
    const std::vector<std::string> known{"always", "first", "never"};
    if (scheme != "always" && scheme != "first" && scheme != "never") fail_unknown("prepend_scheme", scheme, known);
    const bool prefix = get_bool_or(j, "add_prefix_space", true);  // files older than prepend_scheme
    always_ = prefix && scheme == "always";
    first_ = prefix && scheme == "first";
  }
  void apply(TextSegment& s) const override {
    rewrite_pieces(s, [&](std::string_view piece, bool at_origin, std::string& out) {
      const bool marked = piece.starts_with(' ') || piece.starts_with(replacement_);
      if (!marked && (always_ || (first_ && at_origin))) out += replacement_;
      for (char c : piece) {
        if (c == ' ')
          out += replacement_;
        else
          out += c;
      }
    });
    if (split_)
      split_pieces(s, SplitBehavior::MergedWithNext, false,
                   [&](std::string_view t) { return find_all_literal(t, replacement_); });
  }

 private:
  std::string replacement_;
  bool always_ = false, first_ = false, split_;
};

class FixedLength final : public PreTokenizer {
 public:
  explicit FixedLength(int64_t length) : length_(length) {
    if (length < 1) fail("FixedLength: length is " + std::to_string(length) + ", expected at least 1");
  }
  void apply(TextSegment& s) const override {
    split_pieces(s, SplitBehavior::Isolated, false, [&](std::string_view t) {
      std::vector<ByteRange> chunks;
      int64_t n = 0;
      for (size_t i = 0; i < t.size();) {
        const size_t begin = i;
        next_code_point(t, i);
        if (n++ % length_ == 0)
          chunks.push_back({begin, i});
        else
          chunks.back().end = i;
      }
      return chunks;
    });
  }

 private:
  int64_t length_;
};

class PreTokenizerSequence final : public PreTokenizer {
 public:
  PreTokenizerSequence() = default;
  explicit PreTokenizerSequence(const Json& list) : steps_(make_steps<PreTokenizer>(list, make_pre_tokenizer)) {}
  void add(std::unique_ptr<PreTokenizer> step) {
    if (step) steps_.push_back(std::move(step));
  }
  void apply(TextSegment& s) const override {
    for (const auto& step : steps_) {
      s.allowance->look_at(s.text.size() + 1);
      step->apply(s);
      s.allowance->check_size("pre_tokenizer", s.text.size());
    }
  }

 private:
  std::vector<std::unique_ptr<PreTokenizer>> steps_;
};

std::unique_ptr<PreTokenizer> make_bert() {
  auto both = std::make_unique<PreTokenizerSequence>();
  both->add(std::make_unique<SplitCharacters>(is_white_space, SplitBehavior::Removed));
  both->add(std::make_unique<SplitCharacters>(is_punctuation, SplitBehavior::Isolated));
  return both;
}

}  // namespace

std::unique_ptr<PreTokenizer> make_pre_tokenizer(const Json& j) {
  if (j.is_null()) return nullptr;
  const std::string type = component_type(j, "pre_tokenizer");
  if (type == "Split") return std::make_unique<Split>(j);
  if (type == "ByteLevel") return std::make_unique<ByteLevel>(j);
  if (type == "Metaspace") return std::make_unique<Metaspace>(j);
  if (type == "Whitespace") return std::make_unique<Whitespace>();
  if (type == "BertPreTokenizer") return make_bert();
  if (type == "Sequence") return std::make_unique<PreTokenizerSequence>(component_list(j, "pretokenizers"));
  if (type == "FixedLength") return std::make_unique<FixedLength>(get_int_or(j, "length", 5));
  if (type == "WhitespaceSplit") return std::make_unique<SplitCharacters>(is_white_space, SplitBehavior::Removed);
  if (type == "Punctuation")
    return std::make_unique<SplitCharacters>(is_punctuation, parse_behavior(get_string_or(j, "behavior", "Isolated")));
  if (type == "Digits") {
    const bool single = get_bool_or(j, "individual_digits", false);
    return std::make_unique<SplitCharacters>(is_numeric, single ? SplitBehavior::Isolated : SplitBehavior::Contiguous);
  }
  if (type == "CharDelimiterSplit") {
    const char32_t delimiter = get_code_point(j, "delimiter");
    return std::make_unique<SplitCharacters>([delimiter](char32_t c) { return c == delimiter; },
                                             SplitBehavior::Removed);
  }
  fail_unsupported("pre_tokenizer", type,
                   {"Split", "ByteLevel", "Digits", "Punctuation", "Whitespace", "WhitespaceSplit", "Metaspace",
                    "BertPreTokenizer", "CharDelimiterSplit", "FixedLength", "Sequence"});
}

}  // namespace kvcal
