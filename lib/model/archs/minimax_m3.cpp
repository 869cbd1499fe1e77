// MiniMaxM3SparseForCausalLM and the language model of MiniMaxM3SparseForConditionalGeneration: norms of 1 + w, of each
// head of q and k too, RoPE over a part of each head, the clamped activation of gpt-oss everywhere; experts chosen by
// biased sigmoid scores beside a shared one. In some layers queries attend to index_topk_blocks blocks of keys, which a
// head of an indexer picks for all query heads of a key-value head (docs/model-notes.md, "Sparse attention"). Routers
// are published in F32, and then their logits are not rounded; vLLM makes any router F32.
#include <algorithm>

#include "model/archs/archs.h"
#include "model/config_reading.h"
#include "model/decoders/moe_decoder.h"
#include "model/layers/indexer.h"
#include "model/layers/mixer.h"
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

struct BlockIndexerDims {
  int64_t hidden, n_heads, head_dim;
  PickSpec spec;
  float eps;
  std::vector<bool> indexed;  // by layer
};

/// Scores blocks of keys: by queries and keys of its own, normed and rotated as the layer's are.
class BlockIndexer final : public KeyPicker {
 public:
  BlockIndexer(const BlockIndexerDims& d, const RopeSpec& rope, WeightLoader& loader, WeightBinder w)
      : d_(d), rope_(rope) {
    // As published, or as the reference framework saves it.
    const std::string name = w.has("self_attn.index_q_proj.weight") ? "self_attn.index_" : "self_attn.indexer.";
    q_ = load_projection(loader, w, name + "q_proj", d.n_heads * d.head_dim, d.hidden);
    k_ = load_projection(loader, w, name + "k_proj", d.head_dim, d.hidden);
    q_norm_ = loader.load_gain(w(name + "q_norm.weight", {d.head_dim}), Gain::OnePlus);
    k_norm_ = loader.load_gain(w(name + "k_norm.weight", {d.head_dim}), Gain::OnePlus);
  }

  KeyChoice choose(Ops& op, const Tensor& h, const Batch& batch, LayerStates& states, KvTap& tap) const override {
    if (!needs_choice(d_.spec, batch)) return {};
    const int64_t n = batch.n_tokens();
    const Tensor turns = op.rope_table(batch.positions, n, rope_);
    const auto rows = [&](const Linear& w, int64_t heads, const Owned& gain) {
      return op.rope(op.rms_norm(op.linear(h, w).reshaped({n, heads, d_.head_dim}), gain, d_.eps), turns, rope_);
    };
    return choose_keys(op, {rows(q_, d_.n_heads, q_norm_), {}, rows(k_, 1, k_norm_)}, d_.spec, batch, states, tap);
  }

 private:
  const BlockIndexerDims& d_;
  const RopeSpec& rope_;
  Linear q_, k_;           // [heads·dim, hidden], [dim, hidden]
  Owned q_norm_, k_norm_;  // [dim]
};

// What an indexer's values would add to attention, no published checkpoint has.
void refuse_index_values(const Json& sparse) {
  const Json *off = find_member(sparse, "sparse_disable_index_value"),
             *picks = find_member(sparse, "sparse_attention_freq");
  for (size_t i = 0; off && picks && i < std::min(off->size(), picks->size()); ++i)
    if (off->is_array() && (*off)[i] == 0 && picks->is_array() && (*picks)[i] == 1)
      fail("sparse_disable_index_value is 0 for layer " + std::to_string(i) +
           ", whose indexer then has values; the class is read without them");
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
  constexpr const char* kWords[][2] = {
      {"sparse_num_index_heads", "index_n_heads"},  {"sparse_index_dim", "index_head_dim"},
      {"sparse_block_size", "index_block_size"},    {"sparse_topk_blocks", "index_topk_blocks"},
      {"sparse_local_block", "index_local_blocks"}, {"sparse_init_block", "index_init_blocks"},
      {"sparse_score_type", "index_score_type"}};
  for (const auto& [theirs, ours] : kWords)
    if (find_member(sparse, theirs)) text[ours] = sparse[theirs];
  if (!get_bool_or(sparse, "use_sparse_attention", true))
    fail("use_sparse_attention is false; without its sparse attention the class is not read");
  refuse_index_values(sparse);
  const auto words_of = [](const Json& flags, const char* key, const char* yes, const char* no) {
    if (!flags.is_array()) fail(std::string(key) + " is not a list with a number for each layer");
    Json words = Json::array();
    for (const Json& flag : flags) {
      const bool off = flag == 0 || flag == false;
      if (!off && flag != 1 && flag != true) fail(std::string(key) + " holds " + flag.dump() + ", expected 0 and 1");
      words.push_back(off ? no : yes);
    }
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

/// nullptr: no layer is indexed.
std::shared_ptr<const BlockIndexerDims> read_block_indexer(const Json& text, const DecoderDims& dims,
                                                           const RopeSpec& rope) {
  const auto words = read_layer_types(text, dims.n_layers, {"full_attention", kIndexed});
  if (!words || std::ranges::count(*words, kIndexed) == 0) return nullptr;
  auto d = std::make_shared<BlockIndexerDims>();
  d->hidden = dims.hidden;
  d->n_heads = read_size(text, "index_n_heads", 4);
  d->head_dim = read_size(text, "index_head_dim", 128);
  d->spec = {read_size(text, "index_topk_blocks", 16), read_size(text, "index_block_size", 128),
             get_int_or(text, "index_local_blocks", 1)};
  d->eps = dims.eps;
  for (const std::string& word : *words) d->indexed.push_back(word == kIndexed);
  check_product("an indexer", {d->n_heads + 1, d->head_dim, d->hidden});
  check_product("blocks of keys", {d->spec.n_picked, d->spec.block});
  if (dims.n_kv_heads % d->n_heads != 0)
    fail("index_n_heads is " + std::to_string(d->n_heads) + ", expected a divisor of the " +
         std::to_string(dims.n_kv_heads) + " key-value heads for which its heads choose");
  if (d->head_dim < rope.rotary_dim)
    fail("index_head_dim is " + std::to_string(d->head_dim) + ", expected at least the " +
         std::to_string(rope.rotary_dim) + " channels that RoPE rotates");
  if (d->spec.n_local < 0 || d->spec.n_local > d->spec.n_picked)
    fail("index_local_blocks is " + std::to_string(d->spec.n_local) + ", expected 0 to " +
         std::to_string(d->spec.n_picked) + " (index_topk_blocks)");
  if (get_int_or(text, "index_init_blocks", 0) != 0) fail("sparse_init_block is not 0: not supported");
  const std::string type = get_string_or(text, "index_score_type", "max");
  if (type != "max") fail("sparse_score_type is " + quoted(type) + ", expected 'max'");
  return d;
}

class MiniMaxM3 final : public MoeDecoder {
 public:
  MiniMaxM3(const Json& config, MoeDecoderConfig c, std::shared_ptr<const BlockIndexerDims> indexer)
      : MoeDecoder(config, std::move(c)) {
    if (!indexer) return;
    const int64_t heads = indexer->n_heads, width = indexer->head_dim;
    for (size_t i = 0; i < spec_.layers.size(); ++i) {
      if (!indexer->indexed[i]) continue;
      LayerSpec& layer = spec_.layers[i];
      layer.activations += 3 * (heads + 1) * width;
      layer.index_row_bytes = 2 * width;
      layer.kept_row = kept_elements(spec_.caches[static_cast<size_t>(layer.cache)]) + width;
    }
    spec_.indexed_beyond = indexer->spec.n_picked * indexer->spec.block;
    spec_.n_pickers = heads;
  }

 private:
  static int64_t kept_elements(const KvLayout& c) { return c.n_kv_heads * (c.head_dim_k + c.head_dim_v); }
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
  const auto indexer = read_block_indexer(text, c.dims, c.rope);
  if (indexer)
    c.picker = [indexer](const KvLayout& layout, const RopeSpec& rope, WeightLoader& loader,
                         WeightBinder w) -> std::unique_ptr<KeyPicker> {
      if (!indexer->indexed[static_cast<size_t>(layout.layer)]) return nullptr;
      return std::make_unique<BlockIndexer>(*indexer, rope, loader, w);
    };
  return std::make_unique<MiniMaxM3>(config, std::move(c), indexer);
}

}  // namespace kvcal
