#include "model/plain_decoder.h"

namespace kvcal {

PlainDecoder::PlainDecoder(const Json& config, const DecoderDims& dims, const RopeSpec& rope,
                           const DecoderBiases& biases, const std::vector<int64_t>& windows)
    : dims_(dims), rope_(rope), biases_(biases) {
  spec_ = general_spec(config, dims);
  for (const int64_t window : windows)
    add_attention_layer(spec_, dims, rope, window, plain_decoder_parameters(dims, biases));
}

std::unique_ptr<Embedding> PlainDecoder::load_embedding(Ops&, WeightBinder& weights) const {
  return load_token_embedding(spec_, weights);
}

std::unique_ptr<Block> PlainDecoder::load_block(int layer, Ops& op, WeightBinder& weights) const {
  const size_t i = static_cast<size_t>(layer);
  return std::make_unique<PlainDecoderBlock>(dims_, spec_.caches[i], rope_, biases_, op,
                                             weights.at("layers." + std::to_string(layer) + "."));
}

std::unique_ptr<Head> PlainDecoder::load_head(Ops& op, WeightBinder& weights, WeightBinder& head) const {
  return load_output_head(spec_, Gain::Plain, dims_.eps, op, weights, head);
}

}  // namespace kvcal
