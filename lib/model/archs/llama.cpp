// LlamaForCausalLM: Llama 2, 3.x and the many models published under this class. Biases on q, k, v, o with
// attention_bias, on the feed-forward with mlp_bias.
#include "model/archs/archs.h"
#include "model/plain_decoder.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {32000, 4096, 11008, 32, 32, 0, 0, 2048};

Bias bias_if(bool present) { return present ? Bias::Present : Bias::None; }

}  // namespace

std::unique_ptr<Model> parse_llama(const Json& config) {
  const DecoderDims dims = read_decoder_dims(config, kDefaults);
  const Json& text = text_config(config);
  const Bias attention = bias_if(get_bool_or(text, "attention_bias", false));
  const DecoderBiases biases = {attention, attention, bias_if(get_bool_or(text, "mlp_bias", false))};
  const std::vector<int64_t> windows(static_cast<size_t>(dims.n_layers), 0);
  return std::make_unique<PlainDecoder>(config, dims, read_rope(text, dims.head_dim, {}), biases, windows);
}

}  // namespace kvcal
