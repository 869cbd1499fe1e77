// Cohere2MoeForCausalLM: Cohere2's layers, whose feed-forward is a mixture of experts behind the first, dense ones.
// Full layers do not turn, but for dense ones where these have no windows. Norms are layer norms, or RMSNorm where the
// config has an epsilon for it; what experts and shared experts make is averaged, or added. (vLLM's window is one token
// wider.)
#include <optional>

#include "model/archs/archs.h"
#include "model/archs/cohere_keys.h"
#include "model/decoders/decoder_model.h"
#include "model/layers/multipliers.h"
#include "model/layers/sparse_moe.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 256000,
                                       .hidden = 8192,
                                       .ffn = 22528,
                                       .n_layers = 40,
                                       .n_heads = 64,
                                       .head_dim = 128,
                                       .max_positions = 8192,
                                       .tied_head = true,
                                       .eps_key = "layer_norm_eps",
                                       .eps = 1e-5};
constexpr int64_t kDefaultPeriod = 4, kDefaultExperts = 8, kDefaultActive = 2;

RopeSpec read_cohere2_moe_rope(const Json& text, int64_t head_dim) {
  const Json* scaling = find_member(text, "rope_scaling");
  if (scaling && !scaling->is_null() && !find_member(text, "rope_parameters"))
    fail(
        "rope_scaling is given: in this class the reference framework and vLLM ignore it, SGLang does not; say in "
        "rope_parameters what is meant");
  RopeSpec rope = read_rope(text, head_dim, {1e4});
  rope.interleaved = true;
  return rope;
}

struct Cohere2MoeConfig {
  DecoderDims dims;  // ffn: of dense layers
  RopeSpec rope;
  Bias bias;
  Norm::Kind norm;
  MoeDims moe{};
  float share;               // of the sum of experts and shared experts
  std::vector<bool> sparse;  // per layer
  std::vector<int64_t> windows;
  bool dense_layers_turn;  // with no window too

  bool turns(size_t layer) const { return windows[layer] > 0 || (dense_layers_turn && !sparse[layer]); }
};

struct Cohere2MoeBlock final : Block {
  const Cohere2MoeConfig& c;
  const KvLayout& s;
  bool turned;
  Norm norm;  // [hidden]
  LinearGroup qkv;
  Linear wo;  // [hidden, n_heads·D]
  std::optional<SparseMoe> moe;
  std::optional<GluMlp> mlp;

  Cohere2MoeBlock(const Cohere2MoeConfig& config, const KvLayout& layout, WeightLoader& loader, WeightBinder w)
      : c(config),
        s(layout),
        turned(c.turns(static_cast<size_t>(layout.layer))),
        norm{c.norm, c.dims.eps, loader.load_f32(w("input_layernorm.weight", {c.dims.hidden})), {}},
        qkv(load_qkv(loader, w, c.dims, c.bias)),
        wo(load_output_projection(loader, w, "self_attn.o_proj", c.dims.hidden, {c.dims.n_heads, c.dims.head_dim},
                                  c.bias)) {
    if (c.sparse[static_cast<size_t>(layout.layer)]) {
      moe.emplace(c.moe, load_moe(c.moe, {}, loader, w.at("mlp.")));
    } else {
      mlp.emplace(loader, w.at("mlp."), c.dims.hidden, c.dims.ffn);
    }
  }

  Tensor forward(Ops& op, const Tensor& x, const Batch& batch, LayerStates& states, KvTap& tap, Tail tail) override {
    const Tensor turns = turned ? op.rope_table(batch.positions, batch.n_tokens(), c.rope) : Tensor{};
    const HeadsPart parts[] = {{s.head_dim_k, {}, turned}, {s.head_dim_k, {}, turned}, {s.head_dim_v, {}, false}};
    const Tensor h = norm.forward(op, x);
    const auto heads = op.project_heads(h, qkv, {parts, c.dims.eps, turns, c.rope});
    const Tensor o = attend(op, s, heads, wo, batch, states, tap, tail);
    if (!o) return x;
    return op.add(op.add(x, op.linear(o, wo)), moe ? scaled(op, moe->forward(op, h), c.share) : mlp->forward(op, h));
  }
};

class Cohere2Moe final : public DecoderModel {
 public:
  explicit Cohere2Moe(const Json& config) {
    const Json& text = text_config(config);
    read_norm(text);
    DecoderDefaults defaults = kDefaults;
    if (c_.norm == Norm::Kind::Rms) defaults.eps_key = "rms_norm_eps";
    c_.dims = read_decoder_dims(config, defaults);
    c_.rope = read_cohere2_moe_rope(text, c_.dims.head_dim);
    c_.bias = read_bias(text, "attention_bias");
    read_experts(text);
    read_layers(text);
    logits_.factor = read_cohere_logit_scale(text);
    spec_ = general_spec(config, c_.dims);
    add_layers();
  }

  std::unique_ptr<Head> load_head(WeightLoader& loader, WeightBinder& weights, WeightBinder& head) const override {
    const Norm norm{c_.norm, c_.dims.eps, loader.load_f32(weights(spec_.final_norm, {spec_.hidden})), {}};
    return load_output_head(spec_, norm, logits_, loader, weights, head);
  }

 private:
  std::unique_ptr<Block> make_block(const LayerSpec&, const KvLayout* cache, WeightLoader& loader,
                                    WeightBinder w) const override {
    return std::make_unique<Cohere2MoeBlock>(c_, *cache, loader, w);
  }

  void read_norm(const Json& text) {
    const Json* rms = find_member(text, "rms_norm_eps");
    c_.norm = rms && !rms->is_null() ? Norm::Kind::Rms : Norm::Kind::Layer;
  }

  void read_experts(const Json& text) {
    const std::string chosen = get_string_or(text, "expert_selection_fn", "softmax");
    const std::string combined = get_string_or(text, "shared_expert_combination_strategy", "average");
    if (chosen != "softmax" && chosen != "sigmoid")
      fail("expert_selection_fn is " + quoted(chosen) + ", expected softmax or sigmoid");
    if (combined != "average" && combined != "sum")
      fail("shared_expert_combination_strategy is " + quoted(combined) + ", expected average or sum");
    c_.moe.hidden = c_.dims.hidden;
    c_.moe.n_experts = get_int_or(text, "num_experts", kDefaultExperts);
    c_.moe.ffn = c_.dims.ffn;  // before it becomes that of dense layers
    c_.moe.shared_ffn = get_int_or(text, "num_shared_experts", 0) * c_.moe.ffn;
    c_.moe.routing = {.k = get_int_or(text, "num_experts_per_tok", kDefaultActive), .renormalize = true};
    if (chosen == "sigmoid") {
      c_.moe.routing.scoring = Scoring::Sigmoid;
      c_.moe.routing.renormalize = get_bool_or(text, "norm_topk_prob", true);
    }
    check_moe_dims(c_.moe);
    c_.share = c_.moe.shared_ffn > 0 && combined == "average" ? 0.5F : 1;
    if (const Json* dense = find_member(text, "prefix_dense_intermediate_size"); dense && !dense->is_null())
      c_.dims.ffn = read_size(text, "prefix_dense_intermediate_size", 0);
  }

  void read_layers(const Json& text) {
    const int64_t n = c_.dims.n_layers;
    c_.sparse = read_late_sparse_layers(text, n, c_.moe.n_experts, 0);
    const int64_t period = read_size(text, "prefix_dense_sliding_window_pattern", 1);
    c_.dense_layers_turn = period == 1;
    const int64_t window = read_cohere2_window(text);
    const int64_t others = read_size(text, "sliding_window_pattern", kDefaultPeriod);
    c_.windows = read_periodic_windows(text, n, window, others);
    if (text.contains("layer_types") && !text["layer_types"].is_null()) return;
    const int64_t n_dense = get_int_or(text, "first_k_dense_replace", 0);  // each part counts its own layers
    for (int64_t i = 0; i < n; ++i) {
      const bool full = i < n_dense ? (i + 1) % period == 0 : (i - n_dense + 1) % others == 0;
      c_.windows[static_cast<size_t>(i)] = full ? 0 : window;
    }
  }

  void add_layers() {
    const DecoderDims& d = c_.dims;
    for (size_t i = 0; i < c_.windows.size(); ++i) {
      add_attention_layer(spec_, d, c_.turns(i) ? c_.rope : RopeSpec{}, c_.windows[i]);
      if (c_.sparse[i]) count_moe_layer(spec_.layers.back(), c_.moe, d.ffn);
    }
  }

  Cohere2MoeConfig c_;
};

}  // namespace

std::unique_ptr<Model> parse_cohere2_moe(const Json& config) { return std::make_unique<Cohere2Moe>(config); }

}  // namespace kvcal
