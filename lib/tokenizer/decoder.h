// The "decoder" of tokenizer.json: tokens back to text: ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace,
// BPEDecoder, WordPiece, Sequence.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "tokenizer/allowance.h"

namespace kvcal {

class Decoder {
 public:
  virtual ~Decoder() = default;
  /// The text is the concatenation of what comes out of the last step.
  virtual std::vector<std::string> apply(std::vector<std::string> tokens, Allowance& allowance) const = 0;
};

/// Throws Error for an unknown or malformed component. A null component gives a null pointer: tokens are then joined by
/// spaces.
std::unique_ptr<Decoder> make_decoder(const Json& component);

}  // namespace kvcal
