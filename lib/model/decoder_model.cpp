#include "model/decoder_model.h"

namespace kvcal {

std::unique_ptr<Embedding> DecoderModel::load_embedding(Ops&, WeightBinder& weights) const {
  return load_token_embedding(spec_, weights, embedding_factor_);
}

std::unique_ptr<Block> DecoderModel::load_block(int layer, Ops& op, WeightBinder& weights) const {
  const LayerSpec& l = spec_.layers[static_cast<size_t>(layer)];
  const KvLayout* cache = l.cache < 0 ? nullptr : &spec_.caches[static_cast<size_t>(l.cache)];
  return make_block(l, cache, op, weights.at("layers." + std::to_string(layer) + "."));
}

std::unique_ptr<Head> DecoderModel::load_head(Ops& op, WeightBinder& weights, WeightBinder& head) const {
  return load_output_head(spec_, final_gain_, final_eps_, op, weights, head, logits_);
}

}  // namespace kvcal
