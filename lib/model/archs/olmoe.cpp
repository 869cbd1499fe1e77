// OlmoeForCausalLM: norms over all heads of q together, and of k, before RoPE; experts in every layer by softmax
// scores. clip_qkv clamps q, k and v behind the norms.
#include "model/archs/archs.h"
#include "model/decoders/moe_decoder.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {
    .vocab = 50304, .hidden = 2048, .ffn = 2048, .n_layers = 16, .n_heads = 16, .max_positions = 4096, .eps = 1e-5};
constexpr int64_t kDefaultExperts = 64, kDefaultActive = 8;

MoeParts load(const MoeDims& dims, WeightLoader& loader, WeightBinder layer) {
  return load_moe(dims, {}, loader, layer.at("mlp."));
}

}  // namespace

std::unique_ptr<Model> parse_olmoe(const Json& config) {
  const Json& text = text_config(config);
  MoeDecoderConfig c;
  c.dims = read_decoder_dims(config, kDefaults);
  c.rope = read_rope(text, c.dims.head_dim, {});
  c.attention.qkv = c.attention.o = read_bias(text, "attention_bias");
  c.attention.norm = QkNorm::WholeRow;
  c.attention.clip = read_clip(text);
  c.moe.hidden = c.dims.hidden;
  c.moe.n_experts = get_int_or(text, "num_experts", get_int_or(text, "num_local_experts", kDefaultExperts));
  c.moe.ffn = c.dims.ffn;
  c.moe.routing = {.k = get_int_or(text, "num_experts_per_tok", kDefaultActive),
                   .renormalize = get_bool_or(text, "norm_topk_prob", false)};
  check_moe_dims(c.moe);
  c.load = load;
  make_uniform(c);
  return std::make_unique<MoeDecoder>(config, std::move(c));
}

}  // namespace kvcal
