// Exaone4ForCausalLM: norms behind attention and feed-forward, RMSNorm over each head of q and k. Layers with a window
// rotate, the others do not; without any window all rotate.
#include <algorithm>

#include "model/archs/archs.h"
#include "model/archs/exaone4_windows.h"
#include "model/plain_decoder.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 102400,
                                       .hidden = 4096,
                                       .ffn = 16384,
                                       .n_layers = 32,
                                       .n_heads = 32,
                                       .n_kv_heads = 32,
                                       .head_dim = 0,
                                       .max_positions = 2048,
                                       .eps = 1e-5};
constexpr int64_t kDefaultWindow = 4096, kDefaultPeriod = 4;

struct Exaone4Block final : Block {
  const KvLayout& s;
  const RopeSpec& rope;
  float eps;
  LinearGroup qkv;
  Linear wo;             // [hidden, n_heads·D]
  Owned q_norm, k_norm;  // [D]
  GluMlp mlp;
  Owned after_attn, after_ffn;  // [hidden]

  Exaone4Block(const DecoderDims& d, const KvLayout& layout, const RopeSpec& r, WeightLoader& loader, WeightBinder w)
      : s(layout),
        rope(r),
        eps(d.eps),
        qkv(load_qkv(loader, w, d, Bias::None)),
        wo(load_output_projection(loader, w, "self_attn.o_proj", d.hidden, {d.n_heads, d.head_dim}, Bias::None,
                                  OutputTo::Norm)),
        q_norm(loader.load_gain(w("self_attn.q_norm.weight", {d.head_dim}), Gain::Plain)),
        k_norm(loader.load_gain(w("self_attn.k_norm.weight", {d.head_dim}), Gain::Plain)),
        mlp(loader, w.at("mlp."), d.hidden, d.ffn),
        after_attn(loader.load_gain(w("post_attention_layernorm.weight", {d.hidden}), Gain::Plain)),
        after_ffn(loader.load_gain(w("post_feedforward_layernorm.weight", {d.hidden}), Gain::Plain)) {}

  Tensor forward(Ops& op, const Tensor& x, const Batch& batch, LayerStates& states, KvTap& tap, Tail tail) override {
    const bool turned = s.rotary_dim > 0;
    const Tensor turns = turned ? op.rope_table(batch.positions, batch.n_tokens(), rope) : Tensor{};
    const HeadsPart parts[] = {
        {s.head_dim_k, q_norm, turned}, {s.head_dim_k, k_norm, turned}, {s.head_dim_v, {}, false}};
    const Tensor o = attend(op, s, op.project_heads(x, qkv, {parts, eps, turns, rope}), wo, batch, states, tap, tail);
    if (!o) return x;
    const Tensor y = op.add(x, op.rms_norm(op.linear(o, wo), after_attn, eps));
    return op.add(y, op.rms_norm(mlp.forward(op, y), after_ffn, eps));
  }
};

// Without layer_types: the pattern as letters ("LLLG": three local layers, one global) or as a period.
std::vector<bool> read_pattern(const Json& text, int64_t n_layers) {
  std::string letters;
  const Json* pattern = find_member(text, "sliding_window_pattern");
  if (pattern && pattern->is_string()) {
    letters = pattern->get<std::string>();
    if (letters.empty() || letters.find_first_not_of("LG") != std::string::npos)
      fail("sliding_window_pattern is " + quoted(letters) + ", expected letters L and G");
  } else {
    const int64_t period = read_size(text, "sliding_window_pattern", kDefaultPeriod);
    letters = std::string(static_cast<size_t>(std::min(period, n_layers + 1) - 1), 'L') + "G";
  }
  std::vector<bool> slides;
  for (size_t i = 0; i < static_cast<size_t>(n_layers); ++i) slides.push_back(letters[i % letters.size()] == 'L');
  return slides;
}

class Exaone4 final : public AttentionModel {
 public:
  explicit Exaone4(const Json& config) : AttentionModel(config, read_decoder_dims(config, kDefaults)) {
    const Json& text = text_config(config);
    rope_ = read_rope(text, dims_.head_dim, {});
    const std::vector<int64_t> windows = read_exaone4_windows(text, dims_.n_layers);
    const bool all_rotate = std::count(windows.begin(), windows.end(), 0) == dims_.n_layers;
    for (const int64_t window : windows)
      add_attention_layer(spec_, dims_, all_rotate || window > 0 ? rope_ : RopeSpec{}, window).normed_output = true;
    for (LayerSpec& layer : spec_.layers) {
      layer.attention.norm = HeadNorm::Gain;
      layer.activations += dims_.hidden;  // two norms, no fused one
    }
  }

 private:
  std::unique_ptr<Block> load_layer(const KvLayout& cache, WeightLoader& loader, WeightBinder w) const override {
    return std::make_unique<Exaone4Block>(dims_, cache, rope_, loader, w);
  }

  RopeSpec rope_;
};

}  // namespace

std::vector<int64_t> read_exaone4_windows(const Json& text, int64_t n_layers) {
  std::vector<int64_t> windows = read_windows(text, n_layers, kDefaultWindow);
  const bool none = text.contains("sliding_window") && text["sliding_window"].is_null();
  if (!find_member(text, "layer_types") && !none) {
    const std::vector<bool> slides = read_pattern(text, n_layers);
    for (size_t i = 0; i < windows.size(); ++i)
      if (!slides[i]) windows[i] = 0;
  }
  if (!none && std::count(windows.begin(), windows.end(), 0) == n_layers)
    fail("sliding_window is set, but no layer slides: servers would rotate every layer, the reference none");
  return windows;
}

std::unique_ptr<Model> parse_exaone4(const Json& config) { return std::make_unique<Exaone4>(config); }

}  // namespace kvcal
