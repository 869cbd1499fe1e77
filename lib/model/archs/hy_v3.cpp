// HYV3ForCausalLM (Hy3): norms of each head of q and k, the first layer dense, then experts chosen by biased sigmoid
// scores beside a shared one. Two spellings of keys and tensors: that of servers, which is published, and the reference
// framework's.
#include "model/archs/archs.h"
#include "model/decoders/moe_decoder.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 120832,
                                       .hidden = 4096,
                                       .ffn = 13312,
                                       .n_layers = 80,
                                       .n_heads = 64,
                                       .n_kv_heads = 8,
                                       .head_dim = 128,
                                       .max_positions = 131072,
                                       .eps = 1e-5};
constexpr RopeDefaults kRopeDefaults = {11158840};
constexpr BiasedMoeDefaults kMoeDefaults = {
    .n_experts = 192,
    .n_active = 8,
    .ffn = 1536,
    .n_shared = 1,
    .scale = 2.826,
    .experts_key = "num_experts",
    .shared_key = "num_shared_experts",
    .scale_key = "router_scaling_factor",
};

MoeParts load(const MoeDims& dims, WeightLoader& loader, WeightBinder layer) {
  const WeightBinder w = layer.at("mlp.");
  MoeNames names = {.choice_bias = "e_score_correction_bias"};
  if (w.has("router.gate.weight")) names.router = "router.gate";
  if (w.has("expert_bias")) names.choice_bias = "expert_bias";
  if (w.has("shared_mlp.up_proj.weight")) names.shared = "shared_mlp.";
  return load_moe(dims, names, loader, w);
}

/// The config with the reference framework's keys only.
Json renamed(const Json& config) {
  Json out = config;
  Json& text = find_member(out, "text_config") ? out["text_config"] : out;
  constexpr const char* kWords[][2] = {{"expert_hidden_dim", "moe_intermediate_size"},
                                       {"route_norm", "norm_topk_prob"}};
  for (const auto& [servers, ours] : kWords) {
    const Json* given = find_member(text, servers);
    if (!given) continue;
    if (const Json* other = find_member(text, ours); other && *other != *given)
      fail(std::string(servers) + " is " + given->dump() + ", but " + ours + " is " + other->dump());
    text[ours] = Json(*given);
  }
  return out;
}

}  // namespace

std::unique_ptr<Model> parse_hy_v3(const Json& given) {
  const Json config = renamed(given);
  const Json& text = text_config(config);
  if (get_bool_or(text, "mlp_bias", false)) fail("mlp_bias is not supported for this architecture");
  if (!get_bool_or(text, "qk_norm", true)) fail("qk_norm is false; the class is read with norms only");
  MoeDecoderConfig c;
  c.dims = read_decoder_dims(config, kDefaults);
  c.rope = read_rope(text, c.dims.head_dim, kRopeDefaults);
  const Bias bias = read_bias(text, "attention_bias");
  c.attention = {bias, bias, QkNorm::PerHead};
  c.moe = read_biased_moe_dims(text, c.dims.hidden, kMoeDefaults);
  c.load = load;
  c.sparse = read_late_sparse_layers(text, c.dims.n_layers, c.moe.n_experts, 1);
  c.windows.assign(c.sparse.size(), 0);
  return std::make_unique<MoeDecoder>(config, std::move(c));
}

}  // namespace kvcal
