// GemmaForCausalLM, Gemma2ForCausalLM, Gemma3ForCausalLM, the text part of Gemma3ForConditionalGeneration, and
// VaultGemmaForCausalLM: embeddings times sqrt(hidden), (1 + w) norms, gated GELU. All but the first slide in most
// layers and scale queries by a number of their own. Gemma 2 and 3 norm what a branch adds, VaultGemma does not; Gemma
// 2 and VaultGemma cap logits, Gemma 3 norms q and k and turns its sliding layers by another base (docs/model-notes.md,
// "Gemma"). The tokens of an image see all of it, in every layer, within the window.
#include <cmath>

#include "model/archs/archs.h"
#include "model/decoders/decoder_model.h"
#include "model/layers/decoder_block.h"
#include "model/layers/gemma_parts.h"
#include "model/layers/self_attention.h"
#include "model/rope.h"

namespace kvcal {
namespace {

/// What tells the generations apart.
struct Generation {
  DecoderDefaults defaults;
  bool tuned = false;  // has query_pre_attn_scalar and final_logit_softcapping
  bool branch_norms = false, qk_norm = false;
  bool caps_attention = false;               // else attn_logit_softcapping means nothing
  double attention_cap = 0, logits_cap = 0;  // where the config is silent; 0 = none
  int64_t period = 1;                        // every period-th layer attends to everything; 1 = all of them
};

constexpr Generation kFirst = {.defaults = {.vocab = 256000,
                                            .hidden = 3072,
                                            .ffn = 24576,
                                            .n_layers = 28,
                                            .n_heads = 16,
                                            .n_kv_heads = 16,
                                            .head_dim = 256,
                                            .max_positions = 8192,
                                            .tied_head = true,
                                            .act = Activation::GeluTanh,
                                            .act_key = "hidden_activation"}};
constexpr Generation kSecond = {.defaults = {.vocab = 256000,
                                             .hidden = 2304,
                                             .ffn = 9216,
                                             .n_layers = 26,
                                             .n_heads = 8,
                                             .n_kv_heads = 4,
                                             .head_dim = 256,
                                             .max_positions = 8192,
                                             .tied_head = true,
                                             .act = Activation::GeluTanh,
                                             .act_key = "hidden_activation"},
                                .tuned = true,
                                .branch_norms = true,
                                .caps_attention = true,
                                .attention_cap = 50,
                                .logits_cap = 30,
                                .period = 2};
constexpr Generation kThird = {.defaults = {.vocab = 262208,
                                            .hidden = 2304,
                                            .ffn = 9216,
                                            .n_layers = 26,
                                            .n_heads = 8,
                                            .n_kv_heads = 4,
                                            .head_dim = 256,
                                            .max_positions = 131072,
                                            .tied_head = true,
                                            .act = Activation::GeluTanh,
                                            .act_key = "hidden_activation"},
                               .tuned = true,
                               .branch_norms = true,
                               .qk_norm = true,
                               .period = 6};
constexpr Generation without_branch_norms(Generation g) {
  g.branch_norms = false;
  return g;
}
constexpr Generation kVault = without_branch_norms(kSecond);
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
    c_.bias = read_bias(text, "attention_bias");
    c_.branch_norms = g.branch_norms;
    c_.qk_norm = g.qk_norm;
    c_.ffn_norm = g.tuned ? "pre_feedforward_layernorm" : "post_attention_layernorm";
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
    const DecoderDims& d = c_.dims;
    const AttentionForm form{.qkv = c_.bias,
                             .o = c_.bias,
                             .norm = c_.qk_norm ? QkNorm::PerHead : QkNorm::None,
                             .gain = Gain::OnePlus,
                             .to = c_.branch_norms ? OutputTo::Norm : OutputTo::Stream,
                             .cap = c_.attention_cap};
    DecoderBlockParts parts;
    parts.mixer = std::make_unique<SelfAttention>(d, *cache, c_.rope(*cache), form, loader, w);
    parts.ffn = GluMlp(loader, w.at("mlp."), d.hidden, d.ffn, Bias::None, Activation::GeluTanh);
    const RmsNorms norm{loader, w, d.hidden, d.eps, Gain::OnePlus};
    parts.before_mixer = norm("input_layernorm");
    parts.before_ffn = norm(c_.ffn_norm);
    if (c_.branch_norms) {
      parts.after_mixer = norm("post_attention_layernorm");
      parts.after_ffn = norm("post_feedforward_layernorm");
    }
    return std::make_unique<DecoderBlock>(std::move(parts));
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
