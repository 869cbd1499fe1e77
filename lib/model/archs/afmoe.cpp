// AfmoeForCausalLM (Trinity): norms before and behind both branches, norms of each head of q and k, attention's output
// gated by a projection of its own; the first layers dense, then experts chosen by biased sigmoid scores beside shared
// ones. Layers with a window rotate, the others do not.
#include <cmath>
#include <optional>

#include "model/archs/archs.h"
#include "model/decoders/decoder_model.h"
#include "model/layers/sparse_moe.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 200192,
                                       .hidden = 2048,
                                       .ffn = 6144,
                                       .n_layers = 32,
                                       .n_heads = 16,
                                       .head_dim = 128,
                                       .max_positions = 16384,
                                       .eps = 1e-5};
constexpr BiasedMoeDefaults kMoeDefaults = {
    .n_experts = 64,
    .n_active = 6,
    .ffn = 1408,
    .n_shared = 2,
    .experts_key = "num_experts",
    .shared_key = "num_shared_experts",
    .scale_key = "route_scale",
};
constexpr int64_t kDefaultWindow = 1024, kDefaultPeriod = 4;

struct AfmoeConfig {
  DecoderDims dims;  // ffn: of dense layers
  RopeSpec rope;
  Bias bias;
  MoeDims moe;
  int64_t n_dense;  // layers
};

struct AfmoeBlock final : Block {
  const AfmoeConfig& c;
  const KvLayout& s;
  Owned before_attn, after_attn, before_ffn, after_ffn;  // [hidden]
  Owned q_norm, k_norm;                                  // [D]
  LinearGroup qkv;
  Linear wgate, wo;  // [n_heads·D, hidden], [hidden, n_heads·D]
  std::optional<SparseMoe> moe;
  std::optional<GluMlp> mlp;

  AfmoeBlock(const AfmoeConfig& config, const KvLayout& layout, WeightLoader& loader, WeightBinder w)
      : c(config), s(layout), qkv(load_qkv(loader, w, c.dims, c.bias)) {
    const DecoderDims& d = c.dims;
    const auto gain = [&](const std::string& name, int64_t n) { return loader.load_gain(w(name, {n}), Gain::Plain); };
    before_attn = gain("input_layernorm.weight", d.hidden);
    after_attn = gain("post_attention_layernorm.weight", d.hidden);
    before_ffn = gain("pre_mlp_layernorm.weight", d.hidden);
    after_ffn = gain("post_mlp_layernorm.weight", d.hidden);
    q_norm = gain("self_attn.q_norm.weight", d.head_dim);
    k_norm = gain("self_attn.k_norm.weight", d.head_dim);
    wgate = load_projection(loader, w, "self_attn.gate_proj", d.n_heads * d.head_dim, d.hidden);
    wo = load_output_projection(loader, w, "self_attn.o_proj", d.hidden, {d.n_heads, d.head_dim}, c.bias,
                                OutputTo::Norm);
    const WeightBinder feed_forward = w.at("mlp.");
    if (s.layer < c.n_dense) {
      mlp.emplace(loader, feed_forward, d.hidden, d.ffn);
    } else {
      moe.emplace(c.moe,
                  load_moe(c.moe, {.router = "router.gate", .choice_bias = "expert_bias"}, loader, feed_forward));
    }
  }

  Tensor forward(Ops& op, const Tensor& x, const Batch& batch, LayerStates& states, KvTap& tap, Tail tail) override {
    const float eps = c.dims.eps;
    const bool turned = s.rotary_dim > 0;
    const Tensor turns = turned ? op.rope_table(batch.positions, batch.n_tokens(), c.rope) : Tensor{};
    const HeadsPart parts[] = {
        {s.head_dim_k, q_norm, turned}, {s.head_dim_k, k_norm, turned}, {s.head_dim_v, {}, false}};
    const Tensor h = op.rms_norm(x, before_attn, eps);
    const Tensor o = attend(op, s, op.project_heads(h, qkv, {parts, eps, turns, c.rope}), wo, batch, states, tap, tail);
    if (!o) return x;
    const Tensor mixed = op.linear(op.sigmoid_mul(o, op.linear(h, wgate)), wo);
    const auto [y, normed] = op.add_rms_norm(x, op.rms_norm(mixed, after_attn, eps), before_ffn, eps);
    return op.add(y, op.rms_norm(moe ? moe->forward(op, normed) : mlp->forward(op, normed), after_ffn, eps));
  }
};

// Servers read more variants than the reference class has.
void require_the_known_variant(const Json& text) {
  if (const std::string by = get_string_or(text, "score_func", "sigmoid"); by != "sigmoid")
    fail("score_func is " + quoted(by) + "; the class is read with sigmoid scores only");
  if (!get_bool_or(text, "route_norm", true))
    fail("route_norm is false; the class is read with normalized weights only");
  if (get_int_or(text, "n_group", 1) != 1) fail("n_group is not 1; the class is read with experts in one group only");
}

class Afmoe final : public DecoderModel {
 public:
  explicit Afmoe(const Json& config) {
    const Json& text = text_config(config);
    require_the_known_variant(text);
    c_.dims = read_decoder_dims(config, kDefaults);
    c_.rope = read_rope(text, c_.dims.head_dim, {});
    c_.bias = read_bias(text, "attention_bias");
    c_.moe = read_biased_moe_dims(text, c_.dims.hidden, kMoeDefaults);
    c_.moe.logits = RouterLogits::Activations;
    c_.n_dense = get_int_or(text, "num_dense_layers", 1);
    final_eps_ = c_.dims.eps;
    if (get_bool_or(text, "mup_enabled", false))
      embedding_factor_ = static_cast<float>(std::sqrt(static_cast<double>(c_.dims.hidden)));
    spec_ = general_spec(config, c_.dims);
    const int64_t window = read_size(text, "sliding_window", kDefaultWindow);
    add_layers(read_periodic_windows(text, c_.dims.n_layers, window,
                                     read_size(text, "global_attn_every_n_layers", kDefaultPeriod)));
  }

 private:
  std::unique_ptr<Block> make_block(const LayerSpec&, const KvLayout* cache, WeightLoader& loader,
                                    WeightBinder w) const override {
    return std::make_unique<AfmoeBlock>(c_, *cache, loader, w);
  }

  void add_layers(const std::vector<int64_t>& windows) {
    const DecoderDims& d = c_.dims;
    for (size_t i = 0; i < windows.size(); ++i) {
      KvLayout& cache = add_attention_layer(spec_, d, windows[i] > 0 ? c_.rope : RopeSpec{}, windows[i]);
      cache.normed_output = true;
      LayerSpec& layer = spec_.layers.back();
      layer.attention.norm = HeadNorm::Gain;
      layer.activations += 2 * d.n_heads * d.head_dim + 2 * d.hidden;  // the gate, what it makes, two more norms
      if (static_cast<int64_t>(i) >= c_.n_dense) count_moe_layer(layer, c_.moe, d.ffn);
    }
  }

  AfmoeConfig c_;
};

}  // namespace

std::unique_ptr<Model> parse_afmoe(const Json& config) { return std::make_unique<Afmoe>(config); }

}  // namespace kvcal
