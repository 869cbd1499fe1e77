// Qwen3ForCausalLM: RMSNorm over each head of q and k (plain gain) before RoPE; biases only with attention_bias;
// windows as in Qwen2.
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
                                       .head_dim = 128,
                                       .max_positions = 32768};

}  // namespace

std::unique_ptr<Model> parse_qwen3(const Json& config) {
  const DecoderDims dims = read_decoder_dims(config, kDefaults);
  const Json& text = text_config(config);
  const Bias bias = read_bias(text, "attention_bias");
  return std::make_unique<PlainDecoder>(config, dims, read_rope(text, dims.head_dim, {}),
                                        PlainForm{{bias, bias, QkNorm::PerHead}},
                                        read_qwen_windows(text, dims.n_layers));
}

}  // namespace kvcal
