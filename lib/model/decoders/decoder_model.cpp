#include "model/decoders/decoder_model.h"

namespace kvcal {

std::unique_ptr<Embedding> DecoderModel::load_embedding(WeightLoader&, WeightBinder& weights) const {
  return load_token_embedding(spec_, weights, embedding_factor_);
}

std::unique_ptr<Block> DecoderModel::load_block(int layer, WeightLoader& loader, WeightBinder& weights) const {
  const LayerSpec& l = spec_.layers[static_cast<size_t>(layer)];
  const KvLayout* cache = l.cache < 0 ? nullptr : &spec_.caches[static_cast<size_t>(l.cache)];
  return make_block(l, cache, loader, weights.at(spec_.names_of(layer)));
}

std::unique_ptr<Head> DecoderModel::load_head(WeightLoader& loader, WeightBinder& weights, WeightBinder& head) const {
  return load_output_head(spec_, final_gain_, final_eps_, loader, weights, head, logits_);
}

}  // namespace kvcal
