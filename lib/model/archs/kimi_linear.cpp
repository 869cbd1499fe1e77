// KimiLinearForCausalLM: Kimi delta attention, and latent attention that nothing turns; dense layers first, then
// mixtures of experts (docs/model-notes.md, "Kimi delta attention"). Published tensors and keys have names of their own
// (block_sparse_moe, w1, num_experts_per_token, layers counted from 1); the reference framework writes some of them,
// and others while it runs.
//
// Where servers and the reference differ: the norm of the latent uses rms_norm_eps, and moe_layer_freq counts. The
// keys head_dim, num_key_value_heads and rope_* mean nothing here. SGLang rounds the router's logits to bf16, vLLM and
// the reference do not. What Kimi-K3 adds under this class is refused by name.
#include <algorithm>

#include "model/archs/archs.h"
#include "model/decoders/decoder_model.h"
#include "model/layers/decoder_block.h"
#include "model/layers/kimi_delta_attention.h"
#include "model/layers/latent_attention.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {
    .vocab = 163840, .hidden = 2304, .ffn = 9216, .n_layers = 27, .n_heads = 32, .max_positions = 1048576, .eps = 1e-5};
constexpr LatentDims kLatent = {.q_rank = 0, .kv_rank = 512, .nope = 128, .rope = 64, .value = 128};
constexpr MoeNames kExperts = {.choice_bias = "gate.e_score_correction_bias", .gate = "w1", .up = "w3", .down = "w2"};

/// The config in the words of other families, without what means nothing.
Json in_common_words(Json config) {
  constexpr const char* kWords[][2] = {{"model_max_length", "max_position_embeddings"},
                                       {"num_experts", "num_local_experts"},
                                       {"num_experts_per_token", "num_experts_per_tok"},
                                       {"num_shared_experts", "n_shared_experts"},
                                       {"moe_renormalize", "norm_topk_prob"},
                                       {"num_expert_group", "n_group"}};
  for (const auto& [own, common] : kWords)
    if (config.contains(own)) config[common] = config[own];
  for (const char* key : {"num_key_value_heads", "head_dim"}) config.erase(key);
  return config;
}

void refuse_variants(const Json& config) {
  const auto refuse = [](const Json& from, const char* key) {
    const Json* found = find_member(from, key);
    if (!found || (found->is_boolean() && !found->get<bool>())) return;
    fail("the config has " + quoted(std::string(key)) + ": this variant of Kimi-K3 is not supported");
  };
  for (const char* key : {"attn_res_block_size", "mla_use_output_gate", "routed_expert_hidden_size"})
    refuse(config, key);
  if (const Json* linear = find_member(config, "linear_attn_config"))
    for (const char* key : {"gate_lower_bound", "use_full_rank_gate"}) refuse(*linear, key);
  if (!get_bool_or(config, "mla_use_nope", true))
    fail("mla_use_nope is false: neither servers nor the reference rotate anything in this architecture");
}

/// Which layers own a cache, by the numbers in linear_attn_config, which count from 1.
std::vector<bool> read_numbered_layers(const Json& lists, int64_t n_layers) {
  std::vector<bool> listed(static_cast<size_t>(n_layers)), attends(static_cast<size_t>(n_layers));
  for (const bool full : {false, true}) {
    const std::string key = full ? "full_attn_layers" : "kda_layers";
    const Json* list = find_member(lists, key);
    if (!list || !list->is_array()) fail("linear_attn_config has no list " + quoted(key));
    for (const Json& number : *list) {
      const int64_t i = number.is_number_integer() ? number.get<int64_t>() : 0;
      if (i < 1 || i > n_layers)
        fail("linear_attn_config." + key + " holds " + quoted(number.dump()) + ", expected layer numbers from 1 to " +
             std::to_string(n_layers));
      if (listed[static_cast<size_t>(i - 1)])
        fail("linear_attn_config lists layer " + std::to_string(i) + " (counted from 1) twice");
      listed[static_cast<size_t>(i - 1)] = true;
      attends[static_cast<size_t>(i - 1)] = full;
    }
  }
  const auto missing = std::find(listed.begin(), listed.end(), false);
  if (missing != listed.end())
    fail("linear_attn_config does not list layer " + std::to_string(missing - listed.begin() + 1) +
         " (counted from 1)");
  return attends;
}

std::vector<bool> read_attention_layers(const Json& config, int64_t n_layers) {
  const auto words = read_layer_types(config, n_layers, {"full_attention", "linear_attention"});
  const Json* lists = find_member(config, "linear_attn_config");
  const bool numbered = lists && (lists->contains("kda_layers") || lists->contains("full_attn_layers"));
  if (!words && !numbered) fail("neither linear_attn_config nor layer_types says which layers own a cache");
  if (!words) return read_numbered_layers(*lists, n_layers);
  std::vector<bool> attends;
  for (const std::string& word : *words) attends.push_back(word == "full_attention");
  if (numbered && read_numbered_layers(*lists, n_layers) != attends)
    fail("layer_types and linear_attn_config disagree about the layers that own a cache");
  return attends;
}

MoeDims read_experts(const Json& config, int64_t hidden) {
  const auto count = [&](const char* key, int64_t fallback) {
    return config.contains(key) && config[key].is_null() ? 0 : get_int_or(config, key, fallback);
  };
  MoeDims d{};
  d.hidden = hidden;
  d.n_experts = count("num_local_experts", 256);
  d.ffn = read_size(config, "moe_intermediate_size", 1024);
  const int64_t n_shared = count("n_shared_experts", 1);
  if (n_shared < 0 || n_shared > 1024)
    fail("num_shared_experts is " + std::to_string(n_shared) + ", expected 0 to 1024");
  d.shared_ffn = n_shared * d.ffn;
  d.routing.k = get_int_or(config, "num_experts_per_tok", 8);
  const std::string scoring = get_string_or(config, "moe_router_activation_func", "sigmoid");
  if (scoring != "sigmoid") fail_unknown("moe_router_activation_func", scoring, std::vector<std::string>{"sigmoid"});
  d.routing.scoring = Scoring::Sigmoid;
  d.routing.renormalize = get_bool_or(config, "norm_topk_prob", true);
  d.logits = RouterLogits::F32;
  d.routing.least_sum = 1e-20f;
  d.routing.scale = read_factor(config, "routed_scaling_factor", 2.446f);
  d.routing.n_groups = get_int_or(config, "n_group", 1);
  d.routing.k_groups = get_int_or(config, "topk_group", 1);
  if (d.routing.n_groups != 1 && !get_bool_or(config, "use_grouped_topk", true))
    fail("use_grouped_topk is false with num_expert_group " + std::to_string(d.routing.n_groups) +
         ": servers and the reference route differently there, so it is not supported");
  check_moe_dims(d, "num_experts_per_token");
  return d;
}

class KimiLinear final : public DecoderModel {
 public:
  explicit KimiLinear(const Json& given) {
    refuse_variants(given);
    const Json config = in_common_words(given);
    dims_ = read_decoder_dims(config, kDefaults);
    final_eps_ = dims_.eps;
    latent_ = read_latent_dims(config, dims_, kLatent);
    delta_ = read_kimi_delta_dims(config, dims_.hidden, dims_.eps);
    moe_ = read_experts(config, dims_.hidden);
    sparse_ = read_late_sparse_layers(config, dims_.n_layers, moe_.n_experts, 1);
    spec_ = general_spec(config, dims_);
    for (const bool attends : read_attention_layers(config, dims_.n_layers)) {
      if (attends) {
        add_latent_layer(spec_, latent_, no_rope_, dims_.ffn);
      } else {
        add_recurrent_layer(spec_, LayerKind::KimiDeltaAttention, KimiDeltaAttention::size(delta_), dims_.ffn);
      }
      if (sparse_[spec_.layers.size() - 1]) count_moe_layer(spec_.layers.back(), moe_, dims_.ffn);
    }
  }

 private:
  std::unique_ptr<Block> make_block(const LayerSpec& layer, const KvLayout* cache, WeightLoader& loader,
                                    WeightBinder w) const override {
    const RmsNorms norm{loader, w, dims_.hidden, dims_.eps};
    DecoderBlockParts parts{.before_mixer = norm("input_layernorm"), .before_ffn = norm("post_attention_layernorm")};
    if (cache)
      parts.mixer = std::make_unique<LatentAttention>(latent_, *cache, no_rope_.spec, loader, w.at("self_attn."));
    else
      parts.mixer = std::make_unique<KimiDeltaAttention>(delta_, loader, w.at("self_attn."));
    parts.ffn = load_feed_forward(layer, loader, w);
    return std::make_unique<DecoderBlock>(std::move(parts));
  }

  FeedForward load_feed_forward(const LayerSpec& layer, WeightLoader& loader, const WeightBinder& w) const {
    if (sparse_[static_cast<size_t>(layer.index)])
      return SparseMoe(moe_, load_moe(moe_, kExperts, loader, w.at(moe_module(w, kExperts))));
    // The reference framework saves dense layers under the name of the mixtures.
    const std::string renamed = "block_sparse_moe.";
    const bool saved = w.has(renamed + "gate_proj.weight");
    return GluMlp(loader, w.at(saved ? renamed : "mlp."), dims_.hidden, dims_.ffn);
  }

  DecoderDims dims_{};
  LatentDims latent_;
  LatentRope no_rope_;
  KimiDeltaDims delta_{};
  MoeDims moe_{};
  std::vector<bool> sparse_;  // by layer
};

}  // namespace

std::unique_ptr<Model> parse_kimi_linear(const Json& config) { return std::make_unique<KimiLinear>(config); }

}  // namespace kvcal
