// MuseGlimmerForConditionalGeneration (text model): embeddings normed without a gain, norms of 1 + w before and behind
// both branches, norms of each head of q and k without a gain, queries times a factor before RoPE, attention's output
// gated by a projection of its own. By default layers with a window rotate and the others do not. Logits times a
// factor, then capped.
#include "model/archs/archs.h"
#include "model/decoders/decoder_model.h"
#include "model/layers/gemma_parts.h"
#include "model/layers/mixer.h"
#include "model/layers/multipliers.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 202048,
                                       .hidden = 6656,
                                       .ffn = 19968,
                                       .n_layers = 52,
                                       .n_heads = 32,
                                       .n_kv_heads = 2,
                                       .head_dim = 128,
                                       .max_positions = 131072,
                                       .act_key = "hidden_activation",
                                       .eps = 1e-5};
constexpr double kDefaultBranchEps = 1e-8, kDefaultQueryFactor = 3.87, kDefaultLogitsCap = 20;
constexpr float kDefaultLogitsFactor = 0.19611613513818404F;
constexpr int64_t kDefaultWindow = 2048, kDefaultPeriod = 4;

struct MuseConfig {
  DecoderDims dims;
  RopeSpec rope;
  Bias bias;           // of q, k, v and o
  float branch_eps;    // of the norms behind branches
  float query_factor;  // behind the norm
};

class NormedEmbedding final : public Embedding {
 public:
  NormedEmbedding(const Tensor& table, float eps) : table_(table), eps_(eps) {}
  Tensor forward(Ops& op, const Batch& batch) override { return op.rms_norm(op.embed(table_, batch.ids), {}, eps_); }

 private:
  Tensor table_;  // [vocab, hidden], host
  float eps_;
};

struct MuseBlock final : Block {
  const MuseConfig& c;
  const KvLayout& s;
  Owned before_attn, after_attn, before_ffn, after_ffn;  // [hidden]
  LinearGroup qkv;
  Linear wgate, wo;  // [n_heads·D, hidden], [hidden, n_heads·D]
  GluMlp mlp;

  MuseBlock(const MuseConfig& config, const KvLayout& layout, WeightLoader& loader, WeightBinder w)
      : c(config),
        s(layout),
        qkv(load_qkv(loader, w, c.dims, c.bias)),
        wgate(load_projection(loader, w, "self_attn.gate_proj", c.dims.n_heads * c.dims.head_dim, c.dims.hidden)),
        wo(load_output_projection(loader, w, "self_attn.o_proj", c.dims.hidden, {c.dims.n_heads, c.dims.head_dim},
                                  c.bias, OutputTo::Norm)),
        mlp(loader, w.at("mlp."), c.dims.hidden, c.dims.ffn) {
    const auto gain = [&](const std::string& name) {
      return loader.load_gain(w(name + ".weight", {c.dims.hidden}), Gain::OnePlus);
    };
    before_attn = gain("input_layernorm");
    after_attn = gain("post_attention_layernorm");
    before_ffn = gain("pre_feedforward_layernorm");
    after_ffn = gain("post_feedforward_layernorm");
  }

  Tensor forward(Ops& op, const Tensor& x, const Batch& batch, LayerStates& states, KvTap& tap, Tail tail) override {
    const Tensor h = op.rms_norm(x, before_attn, c.dims.eps);
    const Tensor o = attend(op, s, heads_of(op, h, batch), wo, batch, states, tap, tail);
    if (!o) return x;
    const Tensor mixed = op.linear(op.sigmoid_mul(o, op.linear(h, wgate)), wo);
    const auto [y, normed] = op.add_rms_norm(x, op.rms_norm(mixed, after_attn, c.branch_eps), before_ffn, c.dims.eps);
    return op.add(y, op.rms_norm(mlp.forward(op, normed), after_ffn, c.branch_eps));
  }

  std::vector<Tensor> heads_of(Ops& op, const Tensor& h, const Batch& batch) const {
    const HeadsPart parts[] = {{s.head_dim_k, {}, false}, {s.head_dim_k, {}, false}, {s.head_dim_v, {}, false}};
    std::vector<Tensor> heads = op.project_heads(h, qkv, {parts, c.dims.eps, {}, c.rope});
    for (size_t i = 0; i < 2; ++i) heads[i] = op.rms_norm(heads[i], {}, c.dims.eps);
    heads[0] = scaled(op, heads[0], c.query_factor);
    if (s.rotary_dim == 0) return heads;
    const Tensor turns = op.rope_table(batch.positions, batch.n_tokens(), c.rope);
    for (size_t i = 0; i < 2; ++i) heads[i] = op.rope(heads[i], turns, c.rope);
    return heads;
  }
};

/// Which layers do not rotate: those of base 0; without a list every fourth, from the last one backward.
std::vector<bool> read_turning_layers(const Json& text, int64_t n_layers, double theta) {
  std::vector<bool> turning;
  for (int64_t i = 0; i < n_layers; ++i) turning.push_back((n_layers - 1 - i) % kDefaultPeriod != 0);
  const Json* list = find_member(text, "layer_rope_theta");
  if (!list) return turning;
  if (!list->is_array() || list->size() != turning.size())
    fail("layer_rope_theta is not a list of " + std::to_string(n_layers) + " numbers");
  for (size_t i = 0; i < turning.size(); ++i) {
    const Json& base = (*list)[i];
    if (base != 0 && base != theta)
      fail("layer_rope_theta holds " + base.dump() + " for layer " + std::to_string(i) +
           ", expected 0 or rope_theta, " + Json(theta).dump() + ", which servers take for every layer that rotates");
    turning[i] = base != 0;
  }
  return turning;
}

std::vector<int64_t> read_windows_of(const Json& text, int64_t n_layers) {
  if (find_member(text, "layer_types")) return read_windows(text, n_layers, kDefaultWindow);
  std::vector<int64_t> windows = read_windows(text, n_layers, kDefaultWindow);
  for (int64_t i = n_layers - 1; i >= 0; i -= kDefaultPeriod) windows[static_cast<size_t>(i)] = 0;
  return windows;
}

double rope_theta_of(const Json& text) {
  const double outside = get_number_or(text, "rope_theta", RopeDefaults{}.theta);
  const Json* table = find_member(text, "rope_parameters");
  return table ? get_number_or(*table, "rope_theta", outside) : outside;
}

class MuseGlimmer final : public DecoderModel {
 public:
  explicit MuseGlimmer(const Json& config) {
    const Json& text = text_config(config);
    c_.dims = read_decoder_dims(config, kDefaults);
    c_.rope = read_rope(text, c_.dims.head_dim, {});
    c_.bias = read_bias(text, "attention_bias");
    c_.branch_eps = static_cast<float>(get_number_or(text, "post_norm_eps", kDefaultBranchEps));
    if (!(c_.branch_eps >= 0 && c_.branch_eps < 1))
      fail("post_norm_eps is " + Json(c_.branch_eps).dump() + ", expected a number from 0 to less than 1");
    c_.query_factor = read_factor(text, "qk_scale_factor", kDefaultQueryFactor);
    logits_.factor = read_factor(text, "output_multiplier", kDefaultLogitsFactor);
    logits_.cap = read_cap(text, "final_logit_softcapping", kDefaultLogitsCap);
    spec_ = general_spec(config, c_.dims);
    spec_.default_prefix = "model.language_model.";
    add_layers(read_windows_of(text, c_.dims.n_layers),
               read_turning_layers(text, c_.dims.n_layers, rope_theta_of(text)));
  }

  std::unique_ptr<Embedding> load_embedding(WeightLoader&, WeightBinder& weights) const override {
    return std::make_unique<NormedEmbedding>(weights(spec_.embedding, {spec_.vocab, spec_.hidden}), c_.dims.eps);
  }
  std::unique_ptr<Head> load_head(WeightLoader& loader, WeightBinder& weights, WeightBinder& head) const override {
    const Norm norm{Norm::Kind::Rms, c_.dims.eps, loader.load_f32(weights(spec_.final_norm, {spec_.hidden})), {}};
    return load_output_head(spec_, norm, logits_, loader, weights, head);
  }

 private:
  std::unique_ptr<Block> make_block(const LayerSpec&, const KvLayout* cache, WeightLoader& loader,
                                    WeightBinder w) const override {
    return std::make_unique<MuseBlock>(c_, *cache, loader, w);
  }

  void add_layers(const std::vector<int64_t>& windows, const std::vector<bool>& turning) {
    const DecoderDims& d = c_.dims;
    for (size_t i = 0; i < windows.size(); ++i) {
      KvLayout& cache = add_attention_layer(spec_, d, turning[i] ? c_.rope : RopeSpec{}, windows[i]);
      cache.normed_output = true;
      LayerSpec& layer = spec_.layers.back();
      layer.attention.norm = HeadNorm::NoGain;
      // The gate and what it makes, two more norms, and q and k normed, multiplied and rotated one after the other.
      layer.activations += 2 * d.n_heads * d.head_dim + 2 * d.hidden + (3 * d.n_heads + 2 * d.n_kv_heads) * d.head_dim;
    }
  }

  MuseConfig c_{};
};

}  // namespace

std::unique_ptr<Model> parse_muse_glimmer(const Json& config) { return std::make_unique<MuseGlimmer>(config); }

}  // namespace kvcal
