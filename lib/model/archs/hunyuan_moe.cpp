// HunYuanMoEV1ForCausalLM: norms of each head of q and k after RoPE, which leave no bound on rotary pairs; experts in
// every layer beside a shared one. What the config gives for each layer must be the same everywhere. With one active
// expert vLLM and the reference framework weigh it differently: refused.
#include "model/archs/archs.h"
#include "model/decoders/moe_decoder.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {
    .vocab = 290943, .hidden = 4096, .ffn = 11008, .n_layers = 32, .n_heads = 32, .max_positions = 2048, .eps = 1e-5};

MoeParts load(const MoeDims& dims, WeightLoader& loader, WeightBinder layer) {
  return load_moe(dims, {.router = "gate.wg", .shared = "shared_mlp."}, loader, layer.at("mlp."));
}

// A number, or a list of one for each layer.
int64_t read_uniform(const Json& text, const char* key, int64_t n_layers, int64_t fallback) {
  const Json* list = find_member(text, key);
  if (!list || !list->is_array()) return get_int_or(text, key, fallback);
  if (static_cast<int64_t>(list->size()) < n_layers)
    fail(std::string(key) + " has " + std::to_string(list->size()) + " entries, expected " + std::to_string(n_layers));
  for (const Json& entry : *list)
    if (!entry.is_number_integer() || entry != (*list)[0])
      fail(std::string(key) + " differs from layer to layer; that is not supported");
  return (*list)[0].get<int64_t>();
}

void require_the_known_variant(const Json& text) {
  for (const char* key : {"use_cla", "use_mla", "mlp_bias", "group_limited_greedy"})
    if (get_bool_or(text, key, false)) fail(std::string(key) + " is not supported for this architecture");
  if (!get_bool_or(text, "norm_topk_prob", true)) fail("norm_topk_prob is false; the class always renormalizes");
  if (get_int_or(text, "moe_layer_num_skipped", 0) != 0) fail("moe_layer_num_skipped is not supported");
}

MoeDims read_moe(const Json& text, const DecoderDims& dims) {
  constexpr int64_t kMostShared = 1024;
  MoeDims d{};
  d.hidden = dims.hidden;
  d.n_experts = read_uniform(text, "num_experts", dims.n_layers, 1);
  d.ffn = read_uniform(text, "moe_intermediate_size", dims.n_layers, dims.ffn);
  const int64_t shared =
      get_bool_or(text, "use_mixed_mlp_moe", true) ? read_uniform(text, "num_shared_expert", dims.n_layers, 1) : 0;
  if (d.ffn < 1 || d.ffn >= int64_t{1} << 31 || shared < 0 || shared > kMostShared)
    fail("moe_intermediate_size or num_shared_expert is out of range");
  d.shared_ffn = dims.ffn * shared;
  d.logits = RouterLogits::F32;
  d.routing = {.k = read_uniform(text, "moe_topk", dims.n_layers, 1), .renormalize = true};
  check_moe_dims(d, "moe_topk");
  if (d.routing.k == 1) fail("moe_topk is 1; servers and the reference framework differ there in the expert's weight");
  return d;
}

}  // namespace

std::unique_ptr<Model> parse_hunyuan_moe(const Json& config) {
  const Json& text = text_config(config);
  require_the_known_variant(text);
  MoeDecoderConfig c;
  c.dims = read_decoder_dims(config, kDefaults);
  c.rope = read_rope(text, c.dims.head_dim, {});
  c.attention.qkv = c.attention.o = read_bias(text, "attention_bias");
  c.attention.norm = get_bool_or(text, "use_qk_norm", true) ? QkNorm::PerHeadAfterRope : QkNorm::None;
  c.attention.q_norm = "query_layernorm";
  c.attention.k_norm = "key_layernorm";
  c.moe = read_moe(text, c.dims);
  c.load = load;
  make_uniform(c);
  return std::make_unique<MoeDecoder>(config, std::move(c));
}

}  // namespace kvcal
