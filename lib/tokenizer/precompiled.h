// The normalizer "Precompiled" of tokenizer.json: SentencePiece's replacements, applied as the reference does.
#pragma once

#include "tokenizer/charsmap.h"
#include "tokenizer/normalizers.h"

namespace kvcal {

/// A grapheme cluster of less than six bytes gives way as a whole to the replacement of the shortest string of the map
/// that it begins with, whatever else it holds; in longer ones, and in those without one, each character is looked up
/// by itself.
class Precompiled final : public Normalizer {
 public:
  explicit Precompiled(std::string_view base64) : charsmap_(base64) {}
  void apply(TextSegment& segment) const override;

 private:
  Charsmap charsmap_;
};

}  // namespace kvcal
