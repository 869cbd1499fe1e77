// A model made of PlainDecoderBlocks: what Llama, Mistral and Qwen2 have in common beside the layer itself.
#pragma once

#include "model/architecture.h"
#include "model/decoder_parts.h"

namespace kvcal {

class PlainDecoder final : public Model {
 public:
  /// One window per layer, 0 = none.
  PlainDecoder(const Json& config, const DecoderDims& dims, const RopeSpec& rope, const DecoderBiases& biases,
               const std::vector<int64_t>& windows);

  std::unique_ptr<Embedding> load_embedding(Ops& op, WeightBinder& weights) const override;
  std::unique_ptr<Block> load_block(int layer, Ops& op, WeightBinder& weights) const override;
  std::unique_ptr<Head> load_head(Ops& op, WeightBinder& weights, WeightBinder& head) const override;

 private:
  DecoderDims dims_;
  RopeSpec rope_;
  DecoderBiases biases_;
};

}  // namespace kvcal
