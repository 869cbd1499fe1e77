// The "pre_tokenizer" of tokenizer.json: Split, ByteLevel, Digits, Punctuation, Whitespace, WhitespaceSplit, Metaspace,
// BertPreTokenizer, CharDelimiterSplit, FixedLength, Sequence.
#pragma once

#include <memory>

#include "base/json.h"
#include "tokenizer/segment.h"

namespace kvcal {

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  /// Cuts the pieces of the segment into smaller ones; each is treated as a text of its own.
  virtual void apply(TextSegment& segment) const = 0;
};

/// Throws Error for an unknown or malformed component. A null component gives a null pointer: nothing to do.
std::unique_ptr<PreTokenizer> make_pre_tokenizer(const Json& component);

}  // namespace kvcal
