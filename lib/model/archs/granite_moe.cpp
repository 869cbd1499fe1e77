// GraniteMoeForCausalLM and GraniteMoeSharedForCausalLM: Llama's layers with multipliers on embeddings, softmax,
// branches and logits; experts in every layer, and in the second class a shared one. Choosing the best logits and the
// softmax over them alone is the softmax over all, renormalized.
#include "model/archs/archs.h"
#include "model/archs/granite_keys.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr int64_t kDefaultExperts = 8, kDefaultActive = 2;

// As published, and as the reference framework names them by now.
constexpr MoeNames kPublished = {
    .router = "router.layer", .gate_up = "input_linear.weight", .fused_down = "output_linear.weight"};
constexpr MoeNames kRenamed = {.router = "router"};

MoeParts load(const MoeDims& d, WeightLoader& loader, WeightBinder layer) {
  WeightBinder w = layer.at("block_sparse_moe."), shared = layer.at("shared_mlp.");
  MoeDims routed = d;
  routed.shared_ffn = 0;
  MoeParts parts = load_moe(routed, w.has("router.layer.weight") ? kPublished : kRenamed, loader, w);
  if (d.shared_ffn == 0) return parts;
  const HostLinear both = projection(shared, "input_linear", 2 * d.shared_ffn, d.hidden);
  parts.shared = loader.load_glu(both.rows(0, d.shared_ffn), both.rows(d.shared_ffn, d.shared_ffn),
                                 projection(shared, "output_linear", d.hidden, d.shared_ffn));
  return parts;
}

std::unique_ptr<Model> parse(const Json& config, SharedExperts shared) {
  const Json& text = text_config(config);
  refuse_swa_keys(text);
  return std::make_unique<MoeDecoder>(config,
                                      read_granite_moe(text, read_decoder_dims(config, kGraniteDefaults), shared));
}

}  // namespace

MoeDecoderConfig read_granite_moe(const Json& text, const DecoderDims& dims, SharedExperts shared) {
  MoeDecoderConfig c;
  c.dims = dims;
  c.rope = read_rope(text, c.dims.head_dim, {});
  c.attention.qkv = c.attention.o = read_bias(text, "attention_bias");
  c.moe.hidden = c.dims.hidden;
  c.moe.n_experts = read_size(text, "num_local_experts", kDefaultExperts);
  c.moe.ffn = c.dims.ffn;
  if (shared == SharedExperts::Read) c.moe.shared_ffn = get_int_or(text, "shared_intermediate_size", 0);
  c.moe.routing = {.k = get_int_or(text, "num_experts_per_tok", kDefaultActive), .renormalize = true};
  check_moe_dims(c.moe);
  c.load = load;
  make_uniform(c);
  c.multipliers = read_multipliers(text);
  return c;
}

std::unique_ptr<Model> parse_granite_moe(const Json& config) { return parse(config, SharedExperts::None); }
std::unique_ptr<Model> parse_granite_moe_shared(const Json& config) { return parse(config, SharedExperts::Read); }

}  // namespace kvcal
