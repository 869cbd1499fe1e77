// The "normalizer" of tokenizer.json: NFC, NFD, NFKC, NFKD, Lowercase, Strip, StripAccents, Prepend, Replace,
// ByteLevel, Nmt, Precompiled, BertNormalizer, Sequence.
#pragma once

#include <memory>

#include "base/json.h"
#include "tokenizer/segment.h"

namespace kvcal {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  /// Rewrites segment.text and keeps segment.origin_bytes true; pieces are not there yet. What may make more than some
  /// bytes of one asks segment.allowance beforehand.
  virtual void apply(TextSegment& segment) const = 0;
};

/// Throws Error for an unknown or malformed component. A null component gives a null pointer: nothing to do.
std::unique_ptr<Normalizer> make_normalizer(const Json& component);

}  // namespace kvcal
