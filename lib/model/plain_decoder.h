// Decoders whose layers all attend: what they have in common, and the plainest of them.
#pragma once

#include "model/decoder_model.h"

namespace kvcal {

class AttentionModel : public DecoderModel {
 protected:
  AttentionModel(const Json& config, const DecoderDims& dims);

  /// `w` is positioned at the layer that owns the cache.
  virtual std::unique_ptr<Block> load_layer(const KvLayout& cache, WeightLoader& loader, WeightBinder w) const = 0;

  DecoderDims dims_;

 private:
  std::unique_ptr<Block> make_block(const LayerSpec& layer, const KvLayout* cache, WeightLoader& loader,
                                    WeightBinder w) const final;
};

/// PlainDecoderBlocks under the usual names: Llama, Mistral, Qwen2 and their like.
class PlainDecoder : public AttentionModel {
 public:
  /// One window per layer, 0 = none.
  PlainDecoder(const Json& config, const DecoderDims& dims, const RopeSpec& rope, const DecoderBiases& biases,
               const std::vector<int64_t>& windows);

 protected:
  /// One more, behind the others.
  void add_layer(int64_t window);
  std::unique_ptr<Block> load_layer(const KvLayout& cache, WeightLoader& loader, WeightBinder w) const override;

 private:
  RopeSpec rope_;
  DecoderBiases biases_;
};

}  // namespace kvcal
