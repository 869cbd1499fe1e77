#include "model/plain_decoder.h"

namespace kvcal {

AttentionModel::AttentionModel(const Json& config, const DecoderDims& dims) : dims_(dims) {
  spec_ = general_spec(config, dims);
  final_eps_ = dims.eps;
}

std::unique_ptr<Block> AttentionModel::make_block(const LayerSpec&, const KvLayout* cache, WeightLoader& loader,
                                                  WeightBinder w) const {
  return load_layer(*cache, loader, w);
}

PlainDecoder::PlainDecoder(const Json& config, const DecoderDims& dims, const RopeSpec& rope,
                           const DecoderBiases& biases, const std::vector<int64_t>& windows)
    : AttentionModel(config, dims), rope_(rope), biases_(biases) {
  for (const int64_t window : windows) add_layer(window);
}

void PlainDecoder::add_layer(int64_t window) { add_attention_layer(spec_, dims_, rope_, window); }

std::unique_ptr<Block> PlainDecoder::load_layer(const KvLayout& cache, WeightLoader& loader, WeightBinder w) const {
  return std::make_unique<PlainDecoderBlock>(cache, rope_, dims_.eps, load_decoder_weights(dims_, biases_, loader, w));
}

}  // namespace kvcal
