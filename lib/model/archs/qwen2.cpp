// Qwen2ForCausalLM: Qwen2 and Qwen2.5. Biases on q, k, v, none on o; windows only with use_sliding_window.
#include "model/archs/archs.h"
#include "model/decoders/plain_decoder.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 151936,
                                       .hidden = 4096,
                                       .ffn = 22016,
                                       .n_layers = 32,
                                       .n_heads = 32,
                                       .n_kv_heads = 32,
                                       .max_positions = 32768};

}  // namespace

std::unique_ptr<Model> parse_qwen2(const Json& config) {
  const DecoderDims dims = read_decoder_dims(config, kDefaults);
  const Json& text = text_config(config);
  return std::make_unique<PlainDecoder>(config, dims, read_rope(text, dims.head_dim, {}), PlainForm{{Bias::Present}},
                                        read_qwen_windows(text, dims.n_layers));
}

}  // namespace kvcal
