// Exaone4ForCausalLM: norms behind attention and feed-forward, RMSNorm over each head of q and k. Layers with a window
// rotate, the others do not; without any window all rotate.
#include <algorithm>

#include "model/archs/archs.h"
#include "model/archs/exaone4_windows.h"
#include "model/decoders/plain_decoder.h"
#include "model/layers/decoder_block.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 102400,
                                       .hidden = 4096,
                                       .ffn = 16384,
                                       .n_layers = 32,
                                       .n_heads = 32,
                                       .n_kv_heads = 32,
                                       .max_positions = 2048,
                                       .eps = 1e-5};
constexpr int64_t kDefaultWindow = 4096, kDefaultPeriod = 4;

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
    const AttentionForm form{.norm = QkNorm::PerHead, .to = OutputTo::Norm};
    const RmsNorms norm{loader, w, dims_.hidden, dims_.eps};
    DecoderBlockParts parts;
    parts.mixer = std::make_unique<SelfAttention>(dims_, cache, rope_, form, loader, w);
    parts.ffn = GluMlp(loader, w.at("mlp."), dims_.hidden, dims_.ffn);
    parts.after_mixer = norm("post_attention_layernorm");
    parts.after_ffn = norm("post_feedforward_layernorm");
    return std::make_unique<DecoderBlock>(std::move(parts));
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
