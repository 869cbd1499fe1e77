// GemmaForCausalLM, Gemma2ForCausalLM, Gemma3ForCausalLM, the text part of Gemma3ForConditionalGeneration, and
// VaultGemmaForCausalLM: embeddings times sqrt(hidden), (1 + w) norms, gated GELU. All but the first slide in most
// layers and scale queries by a number of their own. Gemma 2 and 3 norm what a branch adds, VaultGemma does not; Gemma
// 2 and VaultGemma cap logits, Gemma 3 norms q and k and turns its sliding layers by another base (docs/model-notes.md,
// "Gemma"). The tokens of an image see all of it, in every layer, within the window.
#include <cmath>

#include "model/archs/archs.h"
#include "model/decoder_model.h"
#include "model/gemma_parts.h"
#include "model/rope.h"

namespace kvcal {
namespace {

/// What tells the generations apart.
struct Generation {
  DecoderDefaults defaults;
  bool tuned;  // has query_pre_attn_scalar and final_logit_softcapping
  bool branch_norms, qk_norm;
  bool caps_attention;               // else attn_logit_softcapping means nothing
  double attention_cap, logits_cap;  // where the config is silent; 0 = none
  int64_t period;                    // every period-th layer attends to everything; 1 = all of them
};

constexpr Generation kFirst = {
    {256000, 3072, 24576, 28, 16, 16, 256, 8192, true, Activation::GeluTanh, "hidden_activation"},
    false,
    false,
    false,
    false,
    0,
    0,
    1};
constexpr Generation kSecond = {
    {256000, 2304, 9216, 26, 8, 4, 256, 8192, true, Activation::GeluTanh, "hidden_activation"},
    true,
    true,
    false,
    true,
    50,
    30,
    2};
constexpr Generation kThird = {
    {262208, 2304, 9216, 26, 8, 4, 256, 131072, true, Activation::GeluTanh, "hidden_activation"},
    true,
    true,
    true,
    false,
    0,
    0,
    6};
constexpr Generation kVault = {kSecond.defaults,   kSecond.tuned,          false,
                               kSecond.qk_norm,    kSecond.caps_attention, kSecond.attention_cap,
                               kSecond.logits_cap, kSecond.period};
constexpr double kDefaultQueryScalar = 256;
constexpr int64_t kDefaultWindow = 4096;

struct GemmaConfig {
  DecoderDims dims;
  Bias bias;
  bool branch_norms, qk_norm;
  const char* ffn_norm;  // its name
  float attention_cap;
  RopeSpec full_rope, sliding_rope;

  const RopeSpec& rope(const KvLayout& layout) const { return layout.window > 0 ? sliding_rope : full_rope; }
};

struct GemmaBlock final : Block {
  const GemmaConfig& c;
  const KvLayout& s;
  Owned attn_norm, ffn_norm;          // [hidden]
  Owned attn_out_norm, ffn_out_norm;  // [hidden], or absent
  Owned q_norm, k_norm;               // [D], or absent
  LinearGroup qkv;
  Linear wo;  // [hidden, n_heads·D]
  GluMlp mlp;

  GemmaBlock(const GemmaConfig& config, const KvLayout& layout, WeightLoader& loader, WeightBinder w)
      : c(config),
        s(layout),
        qkv(load_qkv(loader, w, c.dims, c.bias)),
        wo(load_output_projection(loader, w, "self_attn.o_proj", c.dims.hidden, {c.dims.n_heads, c.dims.head_dim},
                                  c.bias, c.branch_norms ? OutputTo::Norm : OutputTo::Stream)),
        mlp(loader, w.at("mlp."), c.dims.hidden, c.dims.ffn, Bias::None, Activation::GeluTanh) {
    const auto gain = [&](const std::string& name, int64_t n) { return loader.load_gain(w(name, {n}), Gain::OnePlus); };
    const int64_t hidden = c.dims.hidden;
    attn_norm = gain("input_layernorm.weight", hidden);
    ffn_norm = gain(c.ffn_norm, hidden);
    if (c.branch_norms) {
      attn_out_norm = gain("post_attention_layernorm.weight", hidden);
      ffn_out_norm = gain("post_feedforward_layernorm.weight", hidden);
    }
    if (!c.qk_norm) return;
    q_norm = gain("self_attn.q_norm.weight", c.dims.head_dim);
    k_norm = gain("self_attn.k_norm.weight", c.dims.head_dim);
  }

  Tensor forward(Ops& op, const Tensor& x, const Batch& batch, LayerStates& states, KvTap& tap, Tail tail) override {
    const float eps = c.dims.eps;
    const RopeSpec& rope = c.rope(s);
    const Tensor turns = op.rope_table(batch.positions, batch.n_tokens(), rope);
    const HeadsPart parts[] = {{s.head_dim_k, q_norm, true}, {s.head_dim_k, k_norm, true}, {s.head_dim_v, {}, false}};
    const auto heads = op.project_heads(op.rms_norm(x, attn_norm, eps), qkv, {parts, eps, turns, rope});
    const Tensor attended =
        attend(op, s, heads, wo, batch, states, tap, tail, {.softcap = c.attention_cap, .last_keys = batch.last_keys});
    if (!attended) return x;
    const Tensor o = op.linear(attended, wo);
    const Tensor mixed = attn_out_norm ? op.rms_norm(o, attn_out_norm, eps) : o;
    const auto [y, normed] = op.add_rms_norm(x, mixed, ffn_norm, eps);
    const Tensor z = mlp.forward(op, normed);
    return op.add(y, ffn_out_norm ? op.rms_norm(z, ffn_out_norm, eps) : z);
  }
};

std::vector<int64_t> read_windows(const Json& text, int64_t n_layers, const Generation& g) {
  if (g.period == 1) return std::vector<int64_t>(static_cast<size_t>(n_layers), 0);
  int64_t period = g.period;
  for (const char* key : {"_sliding_window_pattern", "sliding_window_pattern"})
    if (g.period > 2) period = read_size(text, key, period);
  std::vector<int64_t> windows = read_periodic_windows(text, n_layers, kDefaultWindow, period);
  const bool null_window = text.contains("sliding_window") && text["sliding_window"].is_null();
  for (int64_t& window : windows) {
    if (window == 0) continue;
    if (null_window) fail("sliding_window is null, but there are layers that slide");
    window = read_size(text, "sliding_window", kDefaultWindow);
  }
  return windows;
}

// The first files say "gelu" in hidden_act and mean tanh; where it is given, hidden_activation decides.
void check_first_activation(const Json& text) {
  const std::string act = get_string_or(text, "hidden_act", "gelu");
  if (!act.starts_with("gelu") && !find_member(text, "hidden_activation"))
    fail("hidden_act is " + quoted(act) + "; this architecture is read with 'gelu_pytorch_tanh' only");
}

RopeSpec read_rope_of(const Json& text, const DecoderDims& dims, const Generation& g, bool sliding) {
  return g.qk_norm ? read_rope_by_kind(text, dims.head_dim, sliding) : read_rope(text, dims.head_dim, {});
}

class Gemma final : public DecoderModel {
 public:
  Gemma(const Json& config, const Generation& g) {
    const Json& text = text_config(config);
    refuse_bidirectional(text);
    if (!g.tuned) check_first_activation(text);
    c_.dims = read_decoder_dims(config, g.defaults);
    c_.bias = get_bool_or(text, "attention_bias", false) ? Bias::Present : Bias::None;
    c_.branch_norms = g.branch_norms;
    c_.qk_norm = g.qk_norm;
    c_.ffn_norm = g.tuned ? "pre_feedforward_layernorm.weight" : "post_attention_layernorm.weight";
    c_.attention_cap = g.caps_attention ? read_cap(text, "attn_logit_softcapping", g.attention_cap) : 0;
    c_.full_rope = read_rope_of(text, c_.dims, g, false);
    c_.sliding_rope = read_rope_of(text, c_.dims, g, true);
    final_gain_ = Gain::OnePlus;
    final_eps_ = c_.dims.eps;
    if (g.tuned) logits_.cap = read_cap(text, "final_logit_softcapping", g.logits_cap);
    spec_ = general_spec(config, c_.dims);
    add_layers(text, g);
    spec_.images_seen_whole = !spec_.placeholders.empty();
    if (find_member(config, "text_config")) spec_.default_prefix = "model.language_model.";
  }

  std::unique_ptr<Embedding> load_embedding(WeightLoader& loader, WeightBinder& weights) const override {
    return load_token_embedding(spec_, weights,
                                in_activation_type(loader, std::sqrt(static_cast<float>(spec_.hidden))));
  }

 private:
  std::unique_ptr<Block> make_block(const LayerSpec&, const KvLayout* cache, WeightLoader& loader,
                                    WeightBinder w) const override {
    return std::make_unique<GemmaBlock>(c_, *cache, loader, w);
  }

  void add_layers(const Json& text, const Generation& g) {
    const DecoderDims& d = c_.dims;
    const double scalar = get_number_or(text, "query_pre_attn_scalar", kDefaultQueryScalar);
    if (!(scalar > 0) || !std::isfinite(scalar)) fail("query_pre_attn_scalar is not a positive number");
    for (const int64_t window : read_windows(text, d.n_layers, g)) {
      KvLayout& cache = add_attention_layer(spec_, d, window > 0 ? c_.sliding_rope : c_.full_rope, window);
      if (g.qk_norm) spec_.layers.back().attention.norm = HeadNorm::OnePlusGain;
      if (g.tuned) cache.softmax_scale = 1 / std::sqrt(scalar);
      cache.capped_logits = c_.attention_cap > 0;
      if (!g.branch_norms) continue;
      cache.normed_output = true;
      spec_.layers.back().activations += 2 * d.hidden;  // the two norms of what is added
    }
  }

  GemmaConfig c_;
};

}  // namespace

std::unique_ptr<Model> parse_gemma(const Json& config) { return std::make_unique<Gemma>(config, kFirst); }
std::unique_ptr<Model> parse_gemma2(const Json& config) { return std::make_unique<Gemma>(config, kSecond); }
std::unique_ptr<Model> parse_vault_gemma(const Json& config) { return std::make_unique<Gemma>(config, kVault); }
std::unique_ptr<Model> parse_gemma3(const Json& config) { return std::make_unique<Gemma>(config, kThird); }

}  // namespace kvcal
