// SmolLM3ForCausalLM: Llama without RoPE on every fourth layer, or where no_rope_layers has a 0 (1 means: rotate). With
// use_sliding_window the layers without RoPE slide, or those that layer_types names.
#include "model/archs/archs.h"
#include "model/decoders/plain_decoder.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 128256,
                                       .hidden = 2048,
                                       .ffn = 11008,
                                       .n_layers = 36,
                                       .n_heads = 16,
                                       .n_kv_heads = 4,
                                       .max_positions = 32768,
                                       .tied_head = true};
constexpr RopeDefaults kRopeDefaults = {2000000};
constexpr int64_t kDefaultInterval = 4;

// Per layer: does it rotate?
std::vector<bool> read_rotating_layers(const Json& text, int64_t n_layers) {
  std::vector<bool> rotates;
  const Json* list = find_member(text, "no_rope_layers");
  if (!list) {
    const int64_t interval = read_size(text, "no_rope_layer_interval", kDefaultInterval);
    for (int64_t i = 0; i < n_layers; ++i) rotates.push_back((i + 1) % interval != 0);
    return rotates;
  }
  if (!list->is_array() || static_cast<int64_t>(list->size()) != n_layers)
    fail("no_rope_layers has " + std::to_string(list->is_array() ? list->size() : 0) + " entries, expected " +
         std::to_string(n_layers) + " (num_hidden_layers)");
  for (const Json& entry : *list) {
    if (entry != 0 && entry != 1) fail("no_rope_layers holds " + quoted(entry.dump()) + ", expected 0 or 1");
    rotates.push_back(entry == 1);
  }
  return rotates;
}

std::vector<int64_t> read_smollm3_windows(const Json& text, const std::vector<bool>& rotates) {
  const int64_t n_layers = static_cast<int64_t>(rotates.size());
  const bool slides = get_bool_or(text, "use_sliding_window", false) && find_member(text, "sliding_window");
  std::vector<int64_t> windows(rotates.size(), 0);
  if (!slides) {
    const auto types = read_layer_types(text, n_layers, {"full_attention", "sliding_attention"});
    for (const std::string& type : types.value_or(std::vector<std::string>{}))
      if (type == "sliding_attention") fail("layer_types names sliding_attention, but use_sliding_window is off");
    return windows;
  }
  windows = read_windows(text, n_layers, 0);
  if (find_member(text, "layer_types")) return windows;
  for (size_t i = 0; i < windows.size(); ++i)
    if (rotates[i]) windows[i] = 0;
  return windows;
}

class SmolLm3 final : public PlainDecoder {
 public:
  SmolLm3(const Json& config, const DecoderDims& dims, const PlainForm& form)
      : PlainDecoder(config, dims, read_rope(text_config(config), dims.head_dim, kRopeDefaults), form, {}) {
    const Json& text = text_config(config);
    const std::vector<bool> rotates = read_rotating_layers(text, dims.n_layers);
    const std::vector<int64_t> windows = read_smollm3_windows(text, rotates);
    for (size_t i = 0; i < rotates.size(); ++i) add_layer(windows[i], rotates[i]);
  }
};

}  // namespace

std::unique_ptr<Model> parse_smollm3(const Json& config) {
  const Json& text = text_config(config);
  const Bias attention = read_bias(text, "attention_bias");
  return std::make_unique<SmolLm3>(config, read_decoder_dims(config, kDefaults),
                                   PlainForm{{attention, attention}, read_bias(text, "mlp_bias")});
}

}  // namespace kvcal
