// Glm4MoeForCausalLM: GLM-4.5 to 4.7. Biases on q, k, v, norms of q and k only in some sizes, RoPE over half of a head;
// the first layers dense, then experts chosen by biased sigmoid scores, and shared ones (docs/model-notes.md, "Choosing
// experts").
#include <algorithm>

#include "model/archs/archs.h"
#include "model/moe_decoder.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 151552,
                                       .hidden = 4096,
                                       .ffn = 10944,
                                       .n_layers = 46,
                                       .n_heads = 96,
                                       .n_kv_heads = 8,
                                       .head_dim = 0,
                                       .max_positions = 131072,
                                       .eps = 1e-5};
constexpr RopeDefaults kRopeDefaults = {10000, 0.5};
constexpr MoeNames kNames = {.choice_bias = "gate.e_score_correction_bias"};

MoeParts load(const MoeDims& dims, WeightLoader& loader, WeightBinder layer) {
  return load_moe(dims, kNames, loader, layer.at("mlp."));
}

MoeDims read_moe(const Json& text, int64_t hidden) {
  MoeDims d{};
  d.hidden = hidden;
  d.n_experts = get_int_or(text, "n_routed_experts", get_int_or(text, "num_local_experts", 128));
  d.ffn = read_size(text, "moe_intermediate_size", 1408);
  d.shared_ffn = d.ffn * read_size(text, "n_shared_experts", 1);
  RoutingSpec& r = d.routing;
  r.k = get_int_or(text, "num_experts_per_tok", 8);
  r.scoring = Scoring::Sigmoid;
  r.renormalize = get_bool_or(text, "norm_topk_prob", true);
  r.scale = static_cast<float>(get_number_or(text, "routed_scaling_factor", 1));
  r.n_groups = get_int_or(text, "n_group", 1);
  r.k_groups = get_int_or(text, "topk_group", 1);
  d.logits = RouterLogits::F32;
  check_moe_dims(d);
  return d;
}

}  // namespace

std::unique_ptr<Model> parse_glm4_moe(const Json& config) {
  const Json& text = text_config(config);
  MoeDecoderConfig c;
  c.dims = read_decoder_dims(config, kDefaults);
  c.rope = read_rope(text, c.dims.head_dim, kRopeDefaults);
  if (get_bool_or(text, "attention_bias", false)) c.attention.qkv = Bias::Present;
  if (get_bool_or(text, "use_qk_norm", false)) c.attention.norm = QkNorm::PerHead;
  c.moe = read_moe(text, c.dims.hidden);
  c.load = load;
  make_uniform(c);
  const int64_t dense = get_int_or(text, "first_k_dense_replace", 1);
  for (int64_t i = 0; i < std::min(dense, c.dims.n_layers); ++i) c.sparse[static_cast<size_t>(i)] = false;
  return std::make_unique<MoeDecoder>(config, std::move(c));
}

}  // namespace kvcal
