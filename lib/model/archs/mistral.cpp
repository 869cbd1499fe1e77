// MistralForCausalLM: Mistral 7B, Nemo, Small. The window covers every layer; absent means the class default 4096, null
// none.
#include "model/archs/archs.h"
#include "model/decoders/plain_decoder.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 32000,
                                       .hidden = 4096,
                                       .ffn = 14336,
                                       .n_layers = 32,
                                       .n_heads = 32,
                                       .n_kv_heads = 8,
                                       .max_positions = 131072};
constexpr int64_t kDefaultWindow = 4096;

}  // namespace

std::unique_ptr<Model> parse_mistral(const Json& config) {
  const DecoderDims dims = read_decoder_dims(config, kDefaults);
  const Json& text = text_config(config);
  if (find_member(text, "llama_4_scaling")) return parse_ministral3(config);
  if (const auto types = read_layer_types(text, dims.n_layers, {"full_attention", "sliding_attention"}))
    fail("layer_types in a MistralForCausalLM config: the reference class ignores them; use the Ministral class");
  const bool no_window = text.contains("sliding_window") && text["sliding_window"].is_null();
  const int64_t window = no_window ? 0 : read_size(text, "sliding_window", kDefaultWindow);
  const std::vector<int64_t> windows(static_cast<size_t>(dims.n_layers), window);
  return std::make_unique<PlainDecoder>(config, dims, read_rope(text, dims.head_dim, {}), PlainForm{}, windows);
}

}  // namespace kvcal
