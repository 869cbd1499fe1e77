// BailingMoeForCausalLM: Ling-lite and -plus. BailingMoeV2ForCausalLM: Ling-2.0 and Ring-2.0. Queries, keys and values
// in one weight, RoPE over a part of a head; the first layers dense, then experts beside shared ones, chosen by
// softmax, or in the second class by biased sigmoid scores as DeepSeek-V3 has it. The reference framework has neither;
// they are read as their publisher's code and the servers have them. BailingMoEForCausalLM is SGLang's own name of
// both, SarvamMoEForCausalLM to both servers the same class again.
#include <algorithm>

#include "model/archs/archs.h"
#include "model/archs/bailing_keys.h"
#include "model/decoders/moe_decoder.h"

namespace kvcal {
namespace {

constexpr BiasedMoeDefaults kMoeDefaults = {.n_experts = 0,
                                            .n_active = 0,
                                            .ffn = 0,
                                            .n_shared = 0,
                                            .experts_key = "num_experts",
                                            .shared_key = "num_shared_experts"};

/// Both classes of the servers go by the config: sigmoid with the bias, or softmax without.
Scoring read_scoring(const Json& text) {
  const bool biased = get_bool_or(text, "moe_router_enable_expert_bias", false);
  const std::string score = get_string_or(text, "score_function", biased ? "sigmoid" : "softmax");
  if (score != (biased ? "sigmoid" : "softmax"))
    fail("score_function is \"" + score + "\" and moe_router_enable_expert_bias " + (biased ? "true" : "false") +
         "; the class is read with sigmoid scores and a bias, or with softmax and none");
  return biased ? Scoring::Sigmoid : Scoring::Softmax;
}

void refuse_others(const Json& text) {
  if (get_bool_or(text, "use_bias", false)) fail("use_bias is true; the class is read without biases of its products");
  if (get_bool_or(text, "use_sliding_window", false))
    fail("use_sliding_window is true; the class is read without windows");
  if (get_bool_or(text, "multi_gate", false)) fail("multi_gate is true; the class is read with one router a layer");
  if (get_bool_or(text, "norm_head", false)) fail("norm_head is true; the class is read with its head as it is");
  if (get_bool_or(text, "use_qk_norm", false) && !get_bool_or(text, "use_rmsnorm", true))
    fail("use_rmsnorm is false; the class is read with RMS norms of q and k");
}

}  // namespace

MoeDims read_bailing_moe(const Json& text, int64_t hidden) {
  MoeDims d = read_biased_moe_dims(text, hidden, kMoeDefaults);
  d.shared_ffn = d.shared_ffn / d.ffn * read_size(text, "moe_shared_expert_intermediate_size", d.ffn);
  d.routing.scoring = read_scoring(text);
  if (d.routing.scoring == Scoring::Softmax) {
    d.logits = RouterLogits::Activations;
    d.routing.group_best = 1;
  }
  return d;
}

MoeParts load_bailing_moe(const MoeDims& dims, WeightLoader& loader, WeightBinder layer) {
  const MoeNames names = {.choice_bias = dims.routing.scoring == Scoring::Sigmoid ? "gate.expert_bias" : nullptr};
  return load_moe(dims, names, loader, layer.at("mlp."));
}

RopeSpec read_bailing_rotation(const Json& text, int64_t head_dim) {
  RopeSpec rope = read_rope(text, head_dim, {});
  if (const int64_t given = get_int_or(text, "rotary_dim", rope.rotary_dim); given != rope.rotary_dim)
    fail("rotary_dim is " + std::to_string(given) + ", but partial_rotary_factor rotates " +
         std::to_string(rope.rotary_dim) + " of a head's " + std::to_string(head_dim));
  return rope;
}

std::unique_ptr<Model> parse_bailing_moe(const Json& config) {
  const Json& text = text_config(config);
  refuse_others(text);
  MoeDecoderConfig c;
  c.dims = read_decoder_dims(config, kBailingDefaults);
  c.rope = read_bailing_rotation(text, c.dims.head_dim);
  c.attention = {.module = "attention", .fused = "query_key_value", .output = "dense"};
  if (get_bool_or(text, "use_qkv_bias", false)) c.attention.qkv = Bias::Present;
  if (get_bool_or(text, "use_qk_norm", false)) c.attention.norm = QkNorm::PerHead;
  c.attention.q_norm = "query_layernorm";
  c.attention.k_norm = "key_layernorm";
  c.moe = read_bailing_moe(text, c.dims.hidden);
  c.load = load_bailing_moe;
  c.embedding = "word_embeddings.weight";
  make_uniform(c);
  const int64_t dense = get_int_or(text, "first_k_dense_replace", 0);
  for (int64_t i = 0; i < std::min(dense, c.dims.n_layers); ++i) c.sparse[static_cast<size_t>(i)] = false;
  return std::make_unique<MoeDecoder>(config, std::move(c));
}

}  // namespace kvcal
