#include "model/plain_parameters.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

namespace kvcal {
namespace {

// Weights of models within these and the limits of the guess can be counted in 64 bits.
constexpr int64_t kMostExperts = 2000, kMostShared = 40, kWidest = int64_t{1} << 20;

// Keys that change nothing of the number of weights, or are read below.
constexpr std::array<std::string_view, 61> kKnown = {
    "_name_or_path",
    "architectures",
    "attention_bias",
    "attn_implementation",
    "_attn_implementation",
    "auto_map",
    "bos_token_id",
    "decoder_sparse_step",
    "dtype",
    "eos_token_id",
    "first_k_dense_replace",
    "hidden_act",
    "id2label",
    "intermediate_size",
    "label2id",
    "layer_types",
    "max_position_embeddings",
    "max_sequence_length",
    "max_window_layers",
    "mlp_bias",
    "model_max_length",
    "model_type",
    "moe_intermediate_size",
    "moe_layer_freq",
    "mtp_num_hidden_layers",
    "n_group",
    "n_routed_experts",
    "n_shared_experts",
    "norm_topk_prob",
    "num_experts",
    "num_experts_per_tok",
    "num_local_experts",
    "num_nextn_predict_layers",
    "original_max_position_embeddings",
    "output_router_logits",
    "pad_token_id",
    "pretraining_tp",
    "qk_norm",
    "qkv_bias",
    "quantization_config",
    "return_dict",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "rotary_dim",
    "scoring_func",
    "score_func",
    "sep_token_id",
    "sliding_window",
    "tie_word_embeddings",
    "tokenizer_class",
    "topk_group",
    "topk_method",
    "torch_dtype",
    "transformers_version",
    "unk_token_id",
    "use_cache",
    "use_qk_norm",
    "use_qkv_bias",
    "use_routing_bias",
    "use_sliding_window",
};

/// 0 where there is none; nothing where it is no size.
std::optional<int64_t> size_or_none(const UsualKeys& keys, std::initializer_list<const char*> names, int64_t most) {
  for (const char* name : names) {
    const Json* found = keys.find(name);
    if (!found) continue;
    if (!found->is_number_integer() || *found < 1 || *found > most) return std::nullopt;
    return found->get<int64_t>();
  }
  return 0;
}

bool all_known(const UsualKeys& keys) {
  return std::ranges::all_of(keys.text().items(), [&](const auto& item) {
    return !keys.find(item.key()) || keys.is_read(item.key()) || std::ranges::find(kKnown, item.key()) != kKnown.end();
  });
}

/// Whether the gates, experts and layers are the usual ones.
bool is_plain(const UsualKeys& keys, const ModelSpec& spec) {
  const Json* act = keys.find("hidden_act");
  const auto every_layer = [&](const char* key) { return !keys.find(key) || *keys.find(key) == 1; };
  const bool told_head = keys.says("tie_word_embeddings", true) || keys.says("tie_word_embeddings", false);
  return act && *act == "silu" && told_head && spec.caches.size() == spec.layers.size() && !spec.caches[0].is_mla() &&
         every_layer("decoder_sparse_step") && every_layer("moe_layer_freq") && all_known(keys);
}

}  // namespace

void add_plain_parameters(const UsualKeys& keys, ModelSpec& spec) {
  if (!is_plain(keys, spec)) return;
  const auto wide = size_or_none(keys, {"intermediate_size"}, kWidest);
  const auto narrow = size_or_none(keys, {"moe_intermediate_size", "intermediate_size"}, kWidest);
  const auto experts = size_or_none(keys, {"num_experts", "n_routed_experts", "num_local_experts"}, kMostExperts);
  const auto shared = size_or_none(keys, {"n_shared_experts"}, kMostShared);
  const auto n_dense = size_or_none(keys, {"first_k_dense_replace"}, static_cast<int64_t>(spec.layers.size()));
  if (!wide || !narrow || !experts || !shared || !n_dense || (*experts > 0 ? *narrow : *wide) == 0) return;
  if ((*experts == 0 || *n_dense > 0) && *wide == 0) return;
  for (LayerSpec& layer : spec.layers) {
    const KvLayout& c = spec.caches[static_cast<size_t>(layer.cache)];
    const bool dense = *experts == 0 || layer.index < *n_dense;
    const int64_t ffn = dense ? *wide : *narrow * (*experts + *shared);
    layer.parameters = spec.hidden * (3 * ffn + (c.n_heads + c.n_kv_heads) * (c.head_dim_k + c.head_dim_v)) +
                       (dense ? 0 : spec.hidden * *experts);
  }
}

}  // namespace kvcal
