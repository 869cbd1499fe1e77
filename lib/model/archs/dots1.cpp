// Dots1ForCausalLM (dots.llm1): attention of Qwen3, the first layers dense, then experts chosen by biased sigmoid
// scores beside shared ones. Layers from max_window_layers on slide, without a key that says so.
#include <algorithm>

#include "model/archs/archs.h"
#include "model/decoders/moe_decoder.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 152064,
                                       .hidden = 4608,
                                       .ffn = 10944,
                                       .n_layers = 62,
                                       .n_heads = 32,
                                       .n_kv_heads = 32,
                                       .max_positions = 2048};
constexpr BiasedMoeDefaults kMoeDefaults = {0, 0, 1408, 0, false};
constexpr int64_t kDefaultWindow = 4096, kDefaultFirst = 62;

MoeParts load(const MoeDims& dims, WeightLoader& loader, WeightBinder layer) {
  return load_moe(dims, {.choice_bias = "gate.e_score_correction_bias"}, loader, layer.at("mlp."));
}

std::vector<int64_t> read_dots1_windows(const Json& text, int64_t n_layers) {
  std::vector<int64_t> windows = read_windows(text, n_layers, kDefaultWindow);
  if (find_member(text, "layer_types")) return windows;
  const int64_t first = get_int_or(text, "max_window_layers", kDefaultFirst);
  for (int64_t i = 0; i < std::min(first, n_layers); ++i) windows[static_cast<size_t>(i)] = 0;
  return windows;
}

}  // namespace

std::unique_ptr<Model> parse_dots1(const Json& config) {
  const Json& text = text_config(config);
  const std::string method = get_string_or(text, "topk_method", "noaux_tc");
  if (method != "noaux_tc") fail_unknown("topk_method", method, std::vector<std::string>{"noaux_tc"});
  MoeDecoderConfig c;
  c.dims = read_decoder_dims(config, kDefaults);
  c.rope = read_rope(text, c.dims.head_dim, {});
  const Bias bias = read_bias(text, "attention_bias");
  c.attention = {bias, bias, QkNorm::PerHead};
  c.moe = read_biased_moe_dims(text, c.dims.hidden, kMoeDefaults);
  c.load = load;
  c.sparse = read_late_sparse_layers(text, c.dims.n_layers, c.moe.n_experts, 0);
  c.windows = read_dots1_windows(text, c.dims.n_layers);
  return std::make_unique<MoeDecoder>(config, std::move(c));
}

}  // namespace kvcal
