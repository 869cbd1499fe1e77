// CohereForCausalLM (Command-R) and Cohere2ForCausalLM: attention and feed-forward side by side behind one layer norm
// without bias, interleaved RoPE, logits times a factor. Command-R+ norms every head of q and k with gains of its own;
// Cohere2's sliding layers turn, its full ones do not.
#include <cmath>

#include "model/archs/archs.h"
#include "model/archs/cohere_keys.h"
#include "model/decoders/decoder_model.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 256000,
                                       .hidden = 8192,
                                       .ffn = 22528,
                                       .n_layers = 40,
                                       .n_heads = 64,
                                       .max_positions = 8192,
                                       .tied_head = true,
                                       .eps_key = "layer_norm_eps",
                                       .eps = 1e-5};
constexpr double kDefaultLogitScale = 0.0625;
constexpr int64_t kDefaultWindow = 4096, kDefaultPeriod = 4;

struct CohereConfig {
  DecoderDims dims;
  RopeSpec rope;
  Bias bias;
  bool qk_norm, turns_only_sliding;

  bool turns(const KvLayout& layout) const { return !turns_only_sliding || layout.window > 0; }
};

struct CohereBlock final : Block {
  const CohereConfig& c;
  const KvLayout& s;
  Owned norm;            // [hidden]
  Owned q_norm, k_norm;  // [n_heads, D], [n_kv_heads, D], or absent
  LinearGroup qkv;
  Linear wo;  // [hidden, n_heads·D]
  GluMlp mlp;

  CohereBlock(const CohereConfig& config, const KvLayout& layout, WeightLoader& loader, WeightBinder w)
      : c(config),
        s(layout),
        norm(loader.load_f32(w("input_layernorm.weight", {c.dims.hidden}))),
        qkv(load_qkv(loader, w, c.dims, c.bias)),
        wo(load_output_projection(loader, w, "self_attn.o_proj", c.dims.hidden, {c.dims.n_heads, c.dims.head_dim},
                                  c.bias)),
        mlp(loader, w.at("mlp."), c.dims.hidden, c.dims.ffn) {
    if (!c.qk_norm) return;
    q_norm = loader.load_f32(w("self_attn.q_norm.weight", {c.dims.n_heads, c.dims.head_dim}));
    k_norm = loader.load_f32(w("self_attn.k_norm.weight", {c.dims.n_kv_heads, c.dims.head_dim}));
  }

  Tensor forward(Ops& op, const Tensor& x, const Batch& batch, LayerStates& states, KvTap& tap, Tail tail) override {
    const float eps = c.dims.eps;
    const bool turned = c.turns(s), at_once = turned && !c.qk_norm;
    const Tensor turns = turned ? op.rope_table(batch.positions, batch.n_tokens(), c.rope) : Tensor{};
    const HeadsPart parts[] = {{s.head_dim_k, {}, at_once}, {s.head_dim_k, {}, at_once}, {s.head_dim_v, {}, false}};
    const Tensor h = op.layer_norm(x, norm, {}, eps);
    auto heads = op.project_heads(h, qkv, {parts, eps, turns, c.rope});
    if (c.qk_norm) {
      heads[0] = op.rope(op.layer_norm(heads[0], q_norm, {}, eps), turns, c.rope);
      heads[1] = op.rope(op.layer_norm(heads[1], k_norm, {}, eps), turns, c.rope);
    }
    const Tensor o = attend(op, s, heads, wo, batch, states, tap, tail);
    if (!o) return x;
    return op.add(op.add(x, op.linear(o, wo)), mlp.forward(op, h));
  }
};

class Cohere final : public DecoderModel {
 public:
  Cohere(const Json& config, bool second) {
    const Json& text = text_config(config);
    c_.dims = read_decoder_dims(config, kDefaults);
    c_.rope = read_rope(text, c_.dims.head_dim, {second ? 1e4 : 5e5});
    c_.rope.interleaved = true;
    c_.bias = read_bias(text, "attention_bias");
    c_.qk_norm = !second && get_bool_or(text, "use_qk_norm", false);
    c_.turns_only_sliding = second;
    logits_.factor = read_cohere_logit_scale(text);
    spec_ = general_spec(config, c_.dims);
    add_layers(second ? read_windows(text) : std::vector<int64_t>(static_cast<size_t>(c_.dims.n_layers), 0));
  }

  std::unique_ptr<Head> load_head(WeightLoader& loader, WeightBinder& weights, WeightBinder& head) const override {
    const Norm norm{Norm::Kind::Layer, c_.dims.eps, loader.load_f32(weights(spec_.final_norm, {spec_.hidden})), {}};
    return load_output_head(spec_, norm, logits_, loader, weights, head);
  }

 private:
  std::unique_ptr<Block> make_block(const LayerSpec&, const KvLayout* cache, WeightLoader& loader,
                                    WeightBinder w) const override {
    return std::make_unique<CohereBlock>(c_, *cache, loader, w);
  }

  std::vector<int64_t> read_windows(const Json& text) const {
    return read_periodic_windows(text, c_.dims.n_layers, read_cohere2_window(text),
                                 read_size(text, "sliding_window_pattern", kDefaultPeriod));
  }

  void add_layers(const std::vector<int64_t>& windows) {
    const DecoderDims& d = c_.dims;
    for (const int64_t window : windows) {
      add_attention_layer(spec_, d, c_.turns_only_sliding && window == 0 ? RopeSpec{} : c_.rope, window);
      if (c_.qk_norm) spec_.layers.back().attention.norm = HeadNorm::Gain;
    }
  }

  CohereConfig c_;
};

}  // namespace

float read_cohere_logit_scale(const Json& text) {
  if (text.contains("logit_scale") && text["logit_scale"].is_null()) return 1;
  const double scale = get_number_or(text, "logit_scale", kDefaultLogitScale);
  if (!(scale > 0) || !std::isfinite(scale)) fail("logit_scale is not a positive number");
  return static_cast<float>(scale);
}

int64_t read_cohere2_window(const Json& text) {
  if (text.contains("sliding_window") && text["sliding_window"].is_null())
    fail("sliding_window is null: which layers rotate by RoPE is then not known");
  return read_size(text, "sliding_window", kDefaultWindow);
}

std::unique_ptr<Model> parse_cohere(const Json& config) { return std::make_unique<Cohere>(config, false); }
std::unique_ptr<Model> parse_cohere2(const Json& config) { return std::make_unique<Cohere>(config, true); }

}  // namespace kvcal
