// MiniMaxM3SparseForCausalLM and the language model of MiniMaxM3SparseForConditionalGeneration: norms of 1 + w, of each
// head of q and k too, RoPE over a part of each head, the clamped activation of gpt-oss everywhere; experts chosen by
// biased sigmoid scores beside a shared one. Some layers attend to blocks of keys that an indexer picks, of as many as
// there are up to index_topk_blocks of them (indexer.h, docs/model-notes.md, "Sparse attention"). Routers are published
// in F32, and then their logits are not rounded; vLLM makes any router F32.
#include <algorithm>

#include "model/archs/archs.h"
#include "model/config_reading.h"
#include "model/moe_decoder.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 200064,
                                       .hidden = 6144,
                                       .ffn = 3072,
                                       .n_layers = 60,
                                       .n_heads = 64,
                                       .n_kv_heads = 4,
                                       .head_dim = 128,
                                       .max_positions = 524288,
                                       .act = Activation::Clamped};
constexpr double kTheta = 5000000;
constexpr int64_t kDefaultExperts = 128, kDefaultActive = 4, kDefaultDense = 12288, kDefaultShared = 3072,
                  kDefaultRotary = 64;
constexpr const char* kIndexed = "minimax_m3_sparse";

/// Saved by the reference framework under names of its own, and with gate and up in one.
MoeParts load(const MoeDims& dims, WeightLoader& loader, WeightBinder layer) {
  MoeNames names = {.choice_bias = "e_score_correction_bias", .gate = "w1", .up = "w3", .down = "w2"};
  const WeightBinder w = layer.at(moe_module(layer, names));
  if (!w.has(names.choice_bias)) names.choice_bias = "gate.e_score_correction_bias";
  return load_moe(dims, names, loader, w);
}

/// Counts the indexer's tensors as used, under the names that are published and the reference framework's.
void pass_over(const WeightBinder& w) {
  for (const char* part : {"q_proj", "k_proj", "q_norm", "k_norm"})
    for (const char* prefix : {"self_attn.index_", "self_attn.indexer."})
      w.claim(std::string(prefix) + part + ".weight");
}

/// The config with the reference framework's keys only.
Json renamed(const Json& config) {
  Json out = config;
  Json& text = find_member(out, "text_config") ? out["text_config"] : out;
  const std::string act = get_string_or(text, "hidden_act", "swigluoai");
  if (act != "swigluoai" && act != "silu")
    fail_unknown("hidden_act", act, std::vector<std::string>{"silu", "swigluoai"});
  text.erase("hidden_act");  // either means the same in this class
  const Json sparse = find_member(text, "sparse_attention_config") ? text["sparse_attention_config"] : Json::object();
  if (!sparse.is_object()) fail("sparse_attention_config is not an object");
  constexpr const char* kWords[][2] = {{"sparse_num_index_heads", "index_n_heads"},
                                       {"sparse_index_dim", "index_head_dim"},
                                       {"sparse_block_size", "index_block_size"},
                                       {"sparse_topk_blocks", "index_topk_blocks"},
                                       {"sparse_local_block", "index_local_blocks"}};
  for (const auto& [theirs, ours] : kWords)
    if (find_member(sparse, theirs)) text[ours] = sparse[theirs];
  const auto words_of = [](const Json& flags, const char* key, const char* yes, const char* no) {
    if (!flags.is_array()) fail(std::string(key) + " is not a list with a number for each layer");
    Json words = Json::array();
    for (const Json& flag : flags) words.push_back(flag == 0 || flag == false ? no : yes);
    return words;
  };
  if (find_member(sparse, "sparse_attention_freq") && !find_member(text, "layer_types"))
    text["layer_types"] =
        words_of(sparse["sparse_attention_freq"], "sparse_attention_freq", kIndexed, "full_attention");
  if (find_member(text, "moe_layer_freq") && !find_member(text, "mlp_layer_types"))
    text["mlp_layer_types"] = words_of(text["moe_layer_freq"], "moe_layer_freq", "sparse", "dense");
  text.erase("moe_layer_freq");
  return out;
}

// Variants that the class's code for servers knows and no published checkpoint has.
void require_the_known_variant(const Json& text) {
  for (const char* key : {"use_gemma_norm", "use_qk_norm", "use_routing_bias"})
    if (!get_bool_or(text, key, true)) fail(std::string(key) + " is false; the class is read with it only");
  const std::string norm = get_string_or(text, "qk_norm_type", "per_head");
  if (norm != "per_head") fail("qk_norm_type is " + quoted(norm) + ", expected 'per_head'");
  const std::string scoring = get_string_or(text, "scoring_func", "sigmoid");
  if (scoring != "sigmoid") fail("scoring_func is " + quoted(scoring) + ", expected 'sigmoid'");
  constexpr std::pair<const char*, double> kFixed[] = {
      {"swiglu_alpha", 1.702}, {"swiglu_limit", 7}, {"swiglu_beta", 1}};
  for (const auto& [key, value] : kFixed)
    if (get_number_or(text, key, value) != value)
      fail(std::string(key) + " is read as " + Json(value).dump() + " only");
}

MoeDims read_moe(const Json& text, const DecoderDims& dims) {
  MoeDims d{};
  d.hidden = dims.hidden;
  d.n_experts = read_size(text, "num_local_experts", kDefaultExperts);
  d.ffn = read_size(text, "intermediate_size", kDefaults.ffn);
  d.shared_ffn = read_size(text, "shared_intermediate_size", kDefaultShared);
  d.routing = {.k = get_int_or(text, "num_experts_per_tok", kDefaultActive),
               .scoring = Scoring::Sigmoid,
               .renormalize = true,
               .scale = static_cast<float>(get_number_or(text, "routed_scaling_factor", 2))};
  d.logits = RouterLogits::AsStored;
  d.act = Activation::Clamped;
  check_moe_dims(d);
  return d;
}

RopeSpec read_rope_of(const Json& text, int64_t head_dim) {
  const int64_t rotary = get_int_or(text, "rotary_dim", std::min(kDefaultRotary, head_dim));
  RopeSpec rope = read_rope(text, head_dim, {kTheta, static_cast<double>(rotary) / static_cast<double>(head_dim)});
  if (find_member(text, "rotary_dim") && rope.rotary_dim != rotary)
    fail("rotary_dim is " + std::to_string(rotary) + ", but partial_rotary_factor makes it " +
         std::to_string(rope.rotary_dim));
  return rope;
}

class MiniMaxM3 final : public MoeDecoder {
 public:
  MiniMaxM3(const Json& config, MoeDecoderConfig c) : MoeDecoder(config, std::move(c)) {
    const Json& text = text_config(config);
    const auto words = read_layer_types(text, static_cast<int64_t>(spec_.layers.size()), {"full_attention", kIndexed});
    if (!words || std::ranges::count(*words, kIndexed) == 0) return;
    const int64_t heads = read_size(text, "index_n_heads", 4), width = read_size(text, "index_head_dim", 128);
    for (size_t i = 0; i < spec_.layers.size(); ++i)
      if ((*words)[i] == kIndexed) spec_.layers[i].parameters += (heads + 1) * width * spec_.hidden + 2 * width;
    spec_.indexed_beyond = read_size(text, "index_topk_blocks", 16) * read_size(text, "index_block_size", 128);
    indexed_ = true;
  }

 private:
  std::unique_ptr<Block> make_block(const LayerSpec& layer, const KvLayout* cache, WeightLoader& loader,
                                    WeightBinder w) const override {
    if (indexed_) pass_over(w);
    return MoeDecoder::make_block(layer, cache, loader, w);
  }

  bool indexed_ = false;
};

}  // namespace

std::unique_ptr<Model> parse_minimax_m3(const Json& given) {
  const Json config = renamed(given);
  const Json& text = text_config(config);
  require_the_known_variant(text);
  MoeDecoderConfig c;
  c.dims = read_decoder_dims(config, kDefaults);
  c.rope = read_rope_of(text, c.dims.head_dim);
  c.gain = c.attention.gain = Gain::OnePlus;
  c.attention.norm = QkNorm::PerHead;
  c.moe = read_moe(text, c.dims);
  c.dims.ffn = read_size(text, "dense_intermediate_size", kDefaultDense);
  c.load = load;
  c.sparse = read_late_sparse_layers(text, c.dims.n_layers, c.moe.n_experts, 0);
  c.windows.assign(c.sparse.size(), 0);
  return std::make_unique<MiniMaxM3>(config, std::move(c));
}

}  // namespace kvcal
