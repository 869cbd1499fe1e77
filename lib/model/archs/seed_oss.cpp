// SeedOssForCausalLM: Llama with explicit head_dim, biases on q, k, v (attention_bias, on by default), on o
// (attention_out_bias) and on the feed-forward (mlp_bias).
#include "model/archs/archs.h"
#include "model/decoders/plain_decoder.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 155136,
                                       .hidden = 4096,
                                       .ffn = 27648,
                                       .n_layers = 64,
                                       .n_heads = 80,
                                       .n_kv_heads = 8,
                                       .head_dim = 128,
                                       .max_positions = 524288};

}  // namespace

std::unique_ptr<Model> parse_seed_oss(const Json& config) {
  const DecoderDims dims = read_decoder_dims(config, kDefaults);
  const Json& text = text_config(config);
  const PlainForm form = {{read_bias(text, "attention_bias", true), read_bias(text, "attention_out_bias")},
                          read_bias(text, "mlp_bias")};
  const std::vector<int64_t> windows(static_cast<size_t>(dims.n_layers), 0);
  return std::make_unique<PlainDecoder>(config, dims, read_rope(text, dims.head_dim, {}), form, windows);
}

}  // namespace kvcal
