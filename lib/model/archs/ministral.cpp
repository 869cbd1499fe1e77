// MinistralForCausalLM: Mistral whose layer_types choose the layers with a window; without them all have it.
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

std::unique_ptr<Model> parse_ministral(const Json& config) {
  const DecoderDims dims = read_decoder_dims(config, kDefaults);
  const Json& text = text_config(config);
  return std::make_unique<PlainDecoder>(config, dims, read_rope(text, dims.head_dim, {}), PlainForm{},
                                        read_windows(text, dims.n_layers, kDefaultWindow));
}

}  // namespace kvcal
