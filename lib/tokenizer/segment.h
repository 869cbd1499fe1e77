// What passes through the stages of a tokenizer: a stretch of text between added tokens, and where it is split.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/allowance.h"
#include "tokenizer/regex.h"

namespace kvcal {

/// Normalizers change `text`; pre-tokenizers change `pieces`, and `text` where they rewrite characters.
struct TextSegment {
  explicit TextSegment(Allowance& a) : allowance(&a) {}

  Allowance* allowance;           // of the whole input
  std::string text;               // valid UTF-8
  std::vector<ByteRange> pieces;  // ascending, not overlapping, none empty; what lies between them is dropped
  /// Leading bytes of `text` that stand for the first character of the whole input; 0 for every segment but the first.
  /// Metaspace with prepend_scheme "first" asks whether a piece begins there.
  size_t origin_bytes = 0;

  std::string_view piece(const ByteRange& s) const { return std::string_view(text).substr(s.begin, s.size()); }
  bool at_origin(const ByteRange& s) const { return s.begin < origin_bytes; }
};

/// What to do with the stretches that a pattern matched ("delimiters") and those between them.
enum class SplitBehavior { Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous };

/// Cuts text[0, size) at `matches` (as from find_all) and appends the pieces, moved by `offset`, to `out`. With
/// `invert` the matches are what is kept and the gaps are the delimiters. Empty pieces are left out.
void append_split(const std::vector<ByteRange>& matches, size_t size, SplitBehavior behavior, bool invert,
                  size_t offset, std::vector<ByteRange>& out);

}  // namespace kvcal
