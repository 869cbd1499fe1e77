// LlamaForCausalLM: Llama 2, 3.x and the many models published under this class. Biases on q, k, v, o with
// attention_bias, on the feed-forward with mlp_bias. Servers run some classes that are no part of the reference
// framework as this one: InternLM3, IQuest-Coder, TeleChat3, LLaMA; there `bias` is another word for attention_bias,
// and qkv_bias is for q, k and v alone.
#include "model/archs/archs.h"
#include "model/plain_decoder.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {32000, 4096, 11008, 32, 32, 0, 0, 2048};

Bias bias_if(bool present) { return present ? Bias::Present : Bias::None; }

std::unique_ptr<Model> make_llama(const Json& config, const DecoderBiases& biases) {
  const DecoderDims dims = read_decoder_dims(config, kDefaults);
  const std::vector<int64_t> windows(static_cast<size_t>(dims.n_layers), 0);
  return std::make_unique<PlainDecoder>(config, dims, read_rope(text_config(config), dims.head_dim, {}), biases,
                                        windows);
}

}  // namespace

std::unique_ptr<Model> parse_llama(const Json& config) {
  const Json& text = text_config(config);
  const Bias attention = bias_if(get_bool_or(text, "attention_bias", false));
  return make_llama(config, {attention, attention, bias_if(get_bool_or(text, "mlp_bias", false))});
}

std::unique_ptr<Model> parse_llama_alias(const Json& config) {
  if (read_clip(config) > 0) fail("clip_qkv is set, which servers do not read for this class");
  if (get_bool_or(config, "use_sliding_window", false))
    fail("use_sliding_window is true, which servers do not read for this class");
  const bool attention = get_bool_or(config, "attention_bias", false) || get_bool_or(config, "bias", false);
  return make_llama(config, {bias_if(get_bool_or(config, "qkv_bias", attention)), bias_if(attention),
                             bias_if(get_bool_or(config, "mlp_bias", false))});
}

}  // namespace kvcal
