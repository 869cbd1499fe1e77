#include "model/decoders/plain_decoder.h"

#include "model/layers/decoder_block.h"

namespace kvcal {

AttentionModel::AttentionModel(const Json& config, const DecoderDims& dims) : dims_(dims) {
  spec_ = general_spec(config, dims);
  final_eps_ = dims.eps;
}

std::unique_ptr<Block> AttentionModel::make_block(const LayerSpec&, const KvLayout* cache, WeightLoader& loader,
                                                  WeightBinder w) const {
  return load_layer(*cache, loader, w);
}

PlainDecoder::PlainDecoder(const Json& config, const DecoderDims& dims, const RopeSpec& rope, const PlainForm& form,
                           const std::vector<int64_t>& windows)
    : AttentionModel(config, dims), rope_(rope), form_(form) {
  for (const int64_t window : windows) add_layer(window);
}

void PlainDecoder::add_layer(int64_t window, bool rotates) {
  add_attention_layer(spec_, dims_, rotates ? rope_ : RopeSpec{}, window);
  name_tensors(spec_.layers.back().attention, form_.attention);
}

std::unique_ptr<Block> PlainDecoder::load_layer(const KvLayout& cache, WeightLoader& loader, WeightBinder w) const {
  const RmsNorms norm{loader, w, dims_.hidden, dims_.eps};
  DecoderBlockParts parts{.before_mixer = norm("input_layernorm"), .before_ffn = norm("post_attention_layernorm")};
  auto attention = std::make_unique<SelfAttention>(dims_, cache, rope_, form_.attention, loader, w);
  attention->grow_queries(form_.growth);
  parts.mixer = std::move(attention);
  parts.ffn = GluMlp(loader, w.at("mlp."), dims_.hidden, dims_.ffn, form_.mlp);
  parts.factor = form_.factor;
  return std::make_unique<DecoderBlock>(std::move(parts));
}

}  // namespace kvcal
