// MiniMaxM2ForCausalLM: norms over all heads of q together, and of k, before RoPE over a part of each head; experts in
// every layer, chosen by biased sigmoid scores. Routers are published in F32, and then their logits are not rounded;
// vLLM makes any router F32.
#include "model/archs/archs.h"
#include "model/decoders/moe_decoder.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 200064,
                                       .hidden = 3072,
                                       .ffn = 1536,
                                       .n_layers = 62,
                                       .n_heads = 48,
                                       .n_kv_heads = 8,
                                       .head_dim = 128,
                                       .max_positions = 196608};
constexpr double kTheta = 5000000;
constexpr int64_t kDefaultExperts = 256, kDefaultActive = 8;

constexpr MoeNames names(const char* choice_bias) {
  return {.choice_bias = choice_bias, .gate = "w1", .up = "w3", .down = "w2"};
}

MoeParts load(const MoeDims& dims, WeightLoader& loader, WeightBinder layer) {
  const WeightBinder w = layer.at(moe_module(layer, names(nullptr)));
  const char* bias = "e_score_correction_bias";
  return load_moe(dims, names(w.has(bias) ? bias : "gate.e_score_correction_bias"), loader, w);
}

// Variants that the class's code for servers knows and no published checkpoint has.
void require_the_known_variant(const Json& text) {
  if (!get_bool_or(text, "use_qk_norm", true)) fail("use_qk_norm is false; the class is read with norms only");
  const std::string norm = get_string_or(text, "qk_norm_type", "per_layer");
  if (norm != "per_layer") fail("qk_norm_type is " + quoted(norm) + ", expected 'per_layer'");
  const std::string scoring = get_string_or(text, "scoring_func", "sigmoid");
  if (scoring != "sigmoid") fail("scoring_func is " + quoted(scoring) + ", expected 'sigmoid'");
  if (!get_bool_or(text, "use_routing_bias", true)) fail("use_routing_bias is false; the class is read with it only");
  if (get_int_or(text, "shared_intermediate_size", 0) != 0) fail("shared experts are not known in this class");
  if (const Json* types = find_member(text, "attn_type_list"))
    for (const Json& t : *types)
      if (t != 1) fail("attn_type_list holds " + t.dump() + "; only softmax attention (1) is known in this class");
}

}  // namespace

std::unique_ptr<Model> parse_minimax_m2(const Json& config) {
  const Json& text = text_config(config);
  require_the_known_variant(text);
  MoeDecoderConfig c;
  c.dims = read_decoder_dims(config, kDefaults);
  const int64_t rotary = get_int_or(text, "rotary_dim", c.dims.head_dim);
  c.rope =
      read_rope(text, c.dims.head_dim, {kTheta, static_cast<double>(rotary) / static_cast<double>(c.dims.head_dim)});
  c.attention.norm = QkNorm::WholeRow;
  c.moe.hidden = c.dims.hidden;
  c.moe.n_experts = read_size(text, "num_local_experts", kDefaultExperts);
  c.moe.ffn = c.dims.ffn;
  c.moe.routing = {
      .k = get_int_or(text, "num_experts_per_tok", kDefaultActive), .scoring = Scoring::Sigmoid, .renormalize = true};
  c.moe.logits = RouterLogits::AsStored;
  check_moe_dims(c.moe);
  c.load = load;
  make_uniform(c);
  return std::make_unique<MoeDecoder>(config, std::move(c));
}

}  // namespace kvcal
