// A model of one block for each layer between a token embedding and a normed head: what nearly all families are.
#pragma once

#include "model/architecture.h"
#include "model/layers/decoder_parts.h"

namespace kvcal {

class DecoderModel : public Model {
 public:
  std::unique_ptr<Embedding> load_embedding(WeightLoader& loader, WeightBinder& weights) const override;
  std::unique_ptr<Block> load_block(int layer, WeightLoader& loader, WeightBinder& weights) const override;
  std::unique_ptr<Head> load_head(WeightLoader& loader, WeightBinder& weights, WeightBinder& head) const override;

 protected:
  /// `w` is positioned at the layer; `cache` is its own one, or null.
  virtual std::unique_ptr<Block> make_block(const LayerSpec& layer, const KvLayout* cache, WeightLoader& loader,
                                            WeightBinder w) const = 0;

  Gain final_gain_ = Gain::Plain;
  float final_eps_ = 0;
  float embedding_factor_ = 1;
  LogitsEnd logits_;
};

}  // namespace kvcal
