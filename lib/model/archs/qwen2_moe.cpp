// Qwen2MoeForCausalLM: attention of Qwen2 (biases on q, k, v unless qkv_bias is off), a mixture of experts with a gated
// shared expert. Without layer_types, use_sliding_window lets every second of the layers below max_window_layers slide:
// the rule of this class alone.
#include "model/archs/archs.h"
#include "model/decoders/moe_decoder.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 151936,
                                       .hidden = 2048,
                                       .ffn = 5632,
                                       .n_layers = 24,
                                       .n_heads = 16,
                                       .n_kv_heads = 16,
                                       .max_positions = 32768};
constexpr MoeDefaults kMoeDefaults = {60, 4, 1408, 5632, false};
constexpr int64_t kDefaultMaxWindowLayers = 28;

MoeParts load(const MoeDims& dims, WeightLoader& loader, WeightBinder layer) {
  return load_moe(dims, {.shared = "shared_expert."}, loader, layer.at("mlp."));
}

std::vector<int64_t> read_windows_of_qwen2_moe(const Json& text, int64_t n_layers) {
  const int64_t window = read_used_window(text);
  if (window == 0 || find_member(text, "layer_types")) return read_qwen_windows(text, n_layers);
  const int64_t end = get_int_or(text, "max_window_layers", kDefaultMaxWindowLayers);
  std::vector<int64_t> windows;
  for (int64_t i = 0; i < n_layers; ++i) windows.push_back(i % 2 == 0 && i < end ? window : 0);
  return windows;
}

}  // namespace

std::unique_ptr<Model> parse_qwen2_moe(const Json& config) {
  const Json& text = text_config(config);
  MoeDecoderConfig c;
  c.dims = read_decoder_dims(config, kDefaults);
  c.rope = read_rope(text, c.dims.head_dim, {});
  c.attention.qkv = read_bias(text, "qkv_bias", true);
  c.moe = read_qwen_moe_dims(text, c.dims.hidden, kMoeDefaults);
  c.load = load;
  c.sparse = read_sparse_layers(text, c.dims.n_layers, c.moe.n_experts);
  c.windows = read_windows_of_qwen2_moe(text, c.dims.n_layers);
  return std::make_unique<MoeDecoder>(config, std::move(c));
}

}  // namespace kvcal
