// Step3p5ForCausalLM and the language model of Step3p7ForConditionalGeneration: norms of 1 + w, of each head of q and k
// too; layers with a window have more query heads and another RoPE; a gate for each head of attention's output. Then
// dense layers, and experts chosen by biased sigmoid scores beside a shared one; some layers limit what is behind the
// activation. Routers are published in F32, and then their logits are not rounded; vLLM makes any router F32.
#include <algorithm>
#include <optional>

#include "model/archs/archs.h"
#include "model/decoders/decoder_model.h"
#include "model/layers/sparse_moe.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 128815,
                                       .hidden = 4096,
                                       .ffn = 11264,
                                       .n_layers = 45,
                                       .n_heads = 64,
                                       .n_kv_heads = 8,
                                       .head_dim = 128,
                                       .max_positions = 128000,
                                       .eps = 1e-5,
                                       .layers_differ = true};
constexpr int64_t kDefaultExperts = 288, kDefaultActive = 8, kDefaultExpert = 1280, kDefaultShared = 1280;
constexpr const char *kFull = "full_attention", *kSliding = "sliding_attention";
constexpr float kExpertLimit = 7;  // of Activation::Capped

/// down( min(silu(gate x), limit) · clamp(up x, ± limit) ). The least silu, -0.28, is never below a limit that is read.
struct LimitedMlp {
  Linear gate, up, down;
  float limit;

  LimitedMlp(WeightLoader& loader, WeightBinder w, int64_t hidden, int64_t ffn, float most)
      : gate(load_projection(loader, w, "gate_proj", ffn, hidden)),
        up(load_projection(loader, w, "up_proj", ffn, hidden)),
        down(load_projection(loader, w, "down_proj", hidden, ffn)),
        limit(most) {
    share_input(gate, up);
  }
  Tensor forward(Ops& op, const Tensor& x) const {
    const Tensor limited = op.clamp(op.activate(op.linear(x, gate), Activation::Silu), -limit, limit);
    return op.linear(op.mul(limited, op.clamp(op.linear(x, up), -limit, limit)), down);
  }
};

/// A SwiGLU, with a limit or without.
struct MaybeLimitedMlp {
  std::optional<GluMlp> plain;
  std::optional<LimitedMlp> limited;

  MaybeLimitedMlp(WeightLoader& loader, const WeightBinder& w, int64_t hidden, int64_t ffn, float limit) {
    if (limit > 0)
      limited.emplace(loader, w, hidden, ffn, limit);
    else
      plain.emplace(loader, w, hidden, ffn);
  }
  Tensor forward(Ops& op, const Tensor& x) const { return plain ? plain->forward(op, x) : limited->forward(op, x); }
};

struct StepLayer {
  DecoderDims dims;  // with its own number of query heads; ffn: of a dense layer
  RopeSpec rope;
  int64_t window;
  bool sparse;
  bool limits_experts;  // to kExpertLimit
  float limit;          // of the dense feed-forward, or of the shared expert; 0 = none
};

struct StepConfig {
  std::vector<StepLayer> layers;
  MoeDims moe;  // without the shared expert
  int64_t shared_ffn;
  Bias bias;  // of q, k, v and o
};

struct StepBlock final : Block {
  const StepLayer& c;
  const KvLayout& s;
  Owned before_attn, before_ffn;  // [hidden]
  Owned q_norm, k_norm;           // [D]
  LinearGroup qkv;
  Linear wgate, wo;  // [n_heads, hidden], [hidden, n_heads·D]
  std::optional<SparseMoe> experts;
  std::optional<MaybeLimitedMlp> dense;  // the whole feed-forward, or the shared expert

  StepBlock(const StepConfig& config, const KvLayout& layout, WeightLoader& loader, WeightBinder w)
      : c(config.layers[static_cast<size_t>(layout.layer)]), s(layout), qkv(load_qkv(loader, w, c.dims, config.bias)) {
    const DecoderDims& d = c.dims;
    const auto gain = [&](const char* name, int64_t n) { return loader.load_gain(w(name, {n}), Gain::OnePlus); };
    before_attn = gain("input_layernorm.weight", d.hidden);
    before_ffn = gain("post_attention_layernorm.weight", d.hidden);
    q_norm = gain("self_attn.q_norm.weight", d.head_dim);
    k_norm = gain("self_attn.k_norm.weight", d.head_dim);
    wgate = load_projection(loader, w, "self_attn.g_proj", d.n_heads, d.hidden);
    wo = load_output_projection(loader, w, "self_attn.o_proj", d.hidden, {d.n_heads, d.head_dim}, config.bias,
                                OutputTo::Gate);
    if (!c.sparse) {
      dense.emplace(loader, w.at("mlp."), d.hidden, d.ffn, c.limit);
      return;
    }
    MoeDims moe = config.moe;
    if (c.limits_experts) moe.act = Activation::Capped;
    experts.emplace(moe, load_moe(moe, {.choice_bias = "router_bias"}, loader, w.at("moe.")));
    dense.emplace(loader, w.at("share_expert."), d.hidden, config.shared_ffn, c.limit);
  }

  Tensor forward(Ops& op, const Tensor& x, const Batch& batch, LayerStates& states, KvTap& tap, Tail tail) override {
    const float eps = c.dims.eps;
    const int64_t n = batch.n_tokens();
    const Tensor turns = op.rope_table(batch.positions, n, c.rope);
    const HeadsPart parts[] = {{s.head_dim_k, q_norm, true}, {s.head_dim_k, k_norm, true}, {s.head_dim_v, {}, false}};
    const Tensor h = op.rms_norm(x, before_attn, eps);
    const Tensor o = attend(op, s, op.project_heads(h, qkv, {parts, eps, turns, c.rope}), wo, batch, states, tap, tail);
    if (!o) return x;
    const Tensor gated =
        op.sigmoid_mul(o.reshaped({n, s.n_heads, s.head_dim_v}), op.linear(h, wgate).reshaped({n, s.n_heads, 1}));
    const Tensor mixed = op.linear(gated.reshaped({n, s.n_heads * s.head_dim_v}), wo);
    const auto [y, normed] = op.add_rms_norm(x, mixed, before_ffn, eps);
    const Tensor out = dense->forward(op, normed);
    return op.add(y, experts ? op.add(experts->forward(op, normed), out) : out);
  }
};

/// The usual keys, and lists of the model's own layers: as published they go on with those of MTP layers.
Json renamed(const Json& config) {
  Json out = config;
  Json& text = find_member(out, "text_config") ? out["text_config"] : out;
  text = with_usual_keys(text, {{"num_attention_groups", "num_key_value_heads"},
                                {"moe_num_experts", "n_routed_experts"},
                                {"num_local_experts", "n_routed_experts"},
                                {"moe_top_k", "num_experts_per_tok"},
                                {"share_expert_dims", "share_expert_dim"}});
  const auto n = static_cast<size_t>(read_size(text, "num_hidden_layers", kDefaults.n_layers));
  const auto n_mtp = static_cast<size_t>(std::max<int64_t>(0, get_int_or(text, "num_nextn_predict_layers", 0)));
  for (const char* key : {"layer_types", "mlp_layer_types", "swiglu_limits", "swiglu_limits_shared", "rope_theta",
                          "partial_rotary_factors", "use_rope_layers"})
    if (const Json* list = find_member(text, key); list && list->is_array() && list->size() == n + n_mtp)
      text[key] = Json(list->begin(), list->begin() + static_cast<std::ptrdiff_t>(n));
  return out;
}

// Variants that servers know, or that they and the reference framework take for different things.
void require_the_known_variant(const Json& text) {
  for (const char* key : {"use_head_wise_attn_gate", "use_qk_norm", "zero_centered", "use_moe_router_bias",
                          "need_fp32_gate", "norm_expert_weight"})
    if (!get_bool_or(text, key, true)) fail(std::string(key) + " is false; the class is read with it only");
  if (const Json* gating = find_member(text, "gating"); gating && *gating != true && *gating != "per-head")
    fail("gating is " + gating->dump() + "; the class is read with a gate for each head only");
  for (const char* key : {"use_bidirectional_attention", "mlp_bias"})
    if (get_bool_or(text, key, false)) fail(std::string(key) + " is true, which is not supported");
  if (const std::string by = get_string_or(text, "moe_router_activation", "sigmoid"); by != "sigmoid")
    fail("moe_router_activation is " + quoted(by) + "; the class is read with sigmoid scores only");
  if (const Json* rotated = find_member(text, "use_rope_layers"))
    for (const Json& layer : *rotated)
      if (layer == false || layer == 0)
        fail("use_rope_layers leaves out layers, which the reference framework does not");
  const int64_t head_dim = read_size(text, "head_dim", kDefaults.head_dim);
  if (get_number_or(text, "query_pre_attn_scalar", static_cast<double>(head_dim)) != static_cast<double>(head_dim))
    fail("query_pre_attn_scalar is not head_dim, which servers take");
}

/// The number of a layer: one for all, or a list of them.
double number_of(const Json& text, const char* key, size_t layer, size_t n_layers, double fallback) {
  const Json* found = find_member(text, key);
  if (!found) return fallback;
  if (found->is_number()) return found->get<double>();
  if (!found->is_array() || found->size() != n_layers)
    fail(std::string(key) + " is neither a number nor a list of " + std::to_string(n_layers));
  const Json& one = (*found)[layer];
  if (one.is_null()) return fallback;
  if (!one.is_number()) fail(std::string(key) + " has no number for layer " + std::to_string(layer));
  return one.get<double>();
}

RopeSpec read_rope_of(const Json& text, size_t layer, size_t n_layers, const std::string& kind, int64_t head_dim) {
  if (const auto own = rope_config_of_kind(text, kind)) return read_rope(*own, head_dim, {});
  Json own = Json::object();  // a layer's: not all of the config for each of them
  for (const char* key : {"rope_parameters", "rope_scaling", "max_position_embeddings",
                          "original_max_position_embeddings", kServedPositions})
    if (text.contains(key)) own[key] = text[key];
  own["rope_theta"] = number_of(text, "rope_theta", layer, n_layers, 10000);
  own["partial_rotary_factor"] = number_of(text, "partial_rotary_factors", layer, n_layers, 1);
  if (find_member(text, "rope_scaling")) {
    if (find_member(text, "yarn_only_types") != nullptr && text["yarn_only_types"] != Json{kFull})
      fail("yarn_only_types is not [\"full_attention\"], which alone is read");
    if (kind != kFull) own.erase("rope_scaling");
  }
  return read_rope(own, head_dim, {});
}

/// Layers with experts: by mlp_layer_types, else by moe_layers_enum, "3,4,5" or a list.
std::vector<bool> read_sparse(const Json& text, int64_t n_layers, int64_t n_experts) {
  if (find_member(text, "mlp_layer_types")) return read_late_sparse_layers(text, n_layers, n_experts, 0);
  const Json* given = find_member(text, "moe_layers_enum");
  if (!given)
    fail("neither mlp_layer_types nor moe_layers_enum says which layers have experts; servers differ without them");
  const Json numbers = given->is_string() ? Json::parse("[" + given->get<std::string>() + "]", nullptr, false) : *given;
  const bool valid =
      numbers.is_array() && std::ranges::all_of(numbers, [](const Json& i) { return i.is_number_unsigned(); });
  if (!valid) fail("moe_layers_enum is not a list of layers: \"3,4,5\"");
  std::vector<bool> sparse(static_cast<size_t>(n_layers), false);
  for (const Json& i : numbers)
    if (i.get<uint64_t>() < sparse.size()) sparse[i.get<uint64_t>()] = true;  // beyond: MTP layers
  return sparse;
}

int64_t read_sliding_heads(const Json& text, int64_t n_heads) {
  const Json other = find_member(text, "attention_other_setting") ? text["attention_other_setting"] : Json::object();
  if (!other.is_object()) fail("attention_other_setting is not an object");
  if (const std::string kind = get_string_or(other, "attention_type", kSliding); kind != kSliding)
    fail("attention_other_setting is of " + quoted(kind) + ", expected " + kSliding);
  for (const auto& [key, usual] : {std::pair("num_attention_groups", "num_key_value_heads"), {"head_dim", "head_dim"}})
    if (find_member(other, key) && get_int(other, key) != get_int_or(text, usual, get_int(other, key)))
      fail(std::string("attention_other_setting has another ") + key +
           " than the other layers, which is not supported");
  return read_size(text, "num_sliding_attention_heads", get_int_or(other, "num_attention_heads", n_heads));
}

/// Query heads by layer: as the reference framework saves them, or else by kind.
std::vector<int64_t> read_heads(const Json& text, const std::vector<std::string>& kinds, const DecoderDims& dims) {
  const std::vector<const Json*> own = read_layer_entries(text, dims.n_layers);
  const bool by_layer = std::ranges::any_of(own, [](const Json* entry) { return entry != nullptr; });
  const int64_t sliding = read_sliding_heads(text, dims.n_heads);
  std::vector<int64_t> heads;
  for (size_t i = 0; i < kinds.size(); ++i) {
    heads.push_back(!by_layer && kinds[i] == kSliding ? sliding : dims.n_heads);
    if (own[i]) {
      for (const auto& [key, value] : own[i]->items())
        if (key != "num_attention_heads") fail("unknown key " + quoted(key) + " in per_layer_config");
      heads.back() = read_size(*own[i], "num_attention_heads", dims.n_heads);
    }
    if (heads.back() % dims.n_kv_heads != 0)
      fail(std::to_string(heads.back()) + " query heads of layer " + std::to_string(i) + " are no multiple of its " +
           std::to_string(dims.n_kv_heads) + " key-value heads");
  }
  return heads;
}

float read_limit(const Json& text, const char* key, size_t layer, size_t n_layers) {
  const double limit = number_of(text, key, layer, n_layers, 0);
  if (limit != 0 && !(limit >= 1))
    fail(std::string(key) + " has a limit of " + Json(limit).dump() + ", expected 1 or more");
  return static_cast<float>(limit);
}

MoeDims read_moe(const Json& text, int64_t hidden) {
  MoeDims d{};
  d.hidden = hidden;
  d.n_experts = read_size(text, "n_routed_experts", kDefaultExperts);
  d.ffn = read_size(text, "moe_intermediate_size", kDefaultExpert);
  d.routing = {.k = get_int_or(text, "num_experts_per_tok", kDefaultActive),
               .scoring = Scoring::Sigmoid,
               .renormalize = true,
               .scale = static_cast<float>(get_number_or(text, "moe_router_scaling_factor", 1))};
  d.logits = RouterLogits::AsStored;
  check_moe_dims(d);
  return d;
}

class Step final : public DecoderModel {
 public:
  explicit Step(const Json& config) {
    const Json& text = text_config(config);
    require_the_known_variant(text);
    const DecoderDims dims = read_decoder_dims(config, kDefaults);
    c_.moe = read_moe(text, dims.hidden);
    c_.shared_ffn = read_size(text, "share_expert_dim", kDefaultShared);
    c_.bias = read_bias(text, "attention_bias");
    read_layers(text, dims);
    spec_ = general_spec(config, dims);
    for (const StepLayer& layer : c_.layers) add_layer(layer);
    final_gain_ = Gain::OnePlus;
    final_eps_ = dims.eps;
  }

 private:
  std::unique_ptr<Block> make_block(const LayerSpec&, const KvLayout* cache, WeightLoader& loader,
                                    WeightBinder w) const override {
    return std::make_unique<StepBlock>(c_, *cache, loader, w);
  }

  void read_layers(const Json& text, const DecoderDims& dims) {
    const auto n = static_cast<size_t>(dims.n_layers);
    const auto given = read_layer_types(text, dims.n_layers, {kFull, kSliding});
    const std::vector<std::string> kinds = given.value_or(std::vector<std::string>(n, kFull));
    const std::vector<int64_t> heads = read_heads(text, kinds, dims);
    const std::vector<bool> sparse = read_sparse(text, dims.n_layers, c_.moe.n_experts);
    for (size_t i = 0; i < n; ++i) {
      StepLayer layer{dims, read_rope_of(text, i, n, kinds[i], dims.head_dim), 0, sparse[i], false, 0};
      if (kinds[i] == kSliding) layer.window = read_size(text, "sliding_window", 0);
      layer.dims.n_heads = heads[i];
      const float limit = read_limit(text, "swiglu_limits", i, n);
      if (sparse[i] && limit != 0 && limit != kExpertLimit)
        fail("swiglu_limits has " + Json(limit).dump() + " for layer " + std::to_string(i) +
             "; experts are read with a limit of 7 only, as vLLM does");
      layer.limits_experts = limit != 0;
      layer.limit = read_limit(text, "swiglu_limits_shared", i, n);
      c_.layers.push_back(std::move(layer));
    }
  }

  void add_layer(const StepLayer& layer) {
    const DecoderDims& d = layer.dims;
    add_attention_layer(spec_, d, layer.rope, layer.window);
    LayerSpec& added = spec_.layers.back();
    added.attention.norm = HeadNorm::OnePlusGain;
    added.activations += d.n_heads * (d.head_dim + 1);  // the gate, and what it makes
    if (layer.sparse) {
      count_moe_layer(added, c_.moe, d.ffn);
      added.activations += 3 * c_.shared_ffn + 3 * d.hidden;
    }
    if (layer.limit > 0) added.activations += 3 * (layer.sparse ? c_.shared_ffn : d.ffn);
  }

  StepConfig c_;
};

}  // namespace

std::unique_ptr<Model> parse_step3p5(const Json& config) { return std::make_unique<Step>(renamed(config)); }

}  // namespace kvcal
