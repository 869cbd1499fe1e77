// Decoders whose layers all attend: what they have in common, and the plainest of them.
#pragma once

#include "model/decoders/decoder_model.h"
#include "model/layers/self_attention.h"

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

/// What the layers of a plain decoder are beside their sizes.
struct PlainForm {
  AttentionForm attention{};
  Bias mlp = Bias::None;
  QueryGrowth growth{};
  float factor = 1;  // of what a branch adds
};

/// h = x + Attn(norm1 x), out = h + MLP(norm2 h) with SwiGLU, under the usual names: Llama, Mistral, Qwen2 and their
/// like.
class PlainDecoder : public AttentionModel {
 public:
  /// One window per layer, 0 = none.
  PlainDecoder(const Json& config, const DecoderDims& dims, const RopeSpec& rope, const PlainForm& form,
               const std::vector<int64_t>& windows);

 protected:
  /// One more, behind the others.
  void add_layer(int64_t window, bool rotates = true);
  std::unique_ptr<Block> load_layer(const KvLayout& cache, WeightLoader& loader, WeightBinder w) const override;

 private:
  RopeSpec rope_;
  PlainForm form_;
};

}  // namespace kvcal
