// LlamaForCausalLM: Llama 2, 3.x and the many models published under this class. Biases on q, k, v, o with
// attention_bias, on the feed-forward with mlp_bias. Classes that the reference framework and servers run as this one
// have defaults of their own (InternLM3, IQuest-Coder) or other words for the biases; of those that servers alone know
// (LLaMA, TeleChat3, openPangu-Embedded) `bias` is for all of attention, and qkv_bias, where it is given, for q, k and
// v. XVERSE, which SGLang alone serves, has neither biases nor a tied head, whatever its config says.
#include "model/archs/archs.h"
#include "model/decoders/plain_decoder.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {
    .vocab = 32000, .hidden = 4096, .ffn = 11008, .n_layers = 32, .n_heads = 32, .max_positions = 2048};
constexpr DecoderDefaults kInternLm3 = {.vocab = 128512,
                                        .hidden = 4096,
                                        .ffn = 10240,
                                        .n_layers = 48,
                                        .n_heads = 32,
                                        .n_kv_heads = 2,
                                        .head_dim = 128,
                                        .max_positions = 32768,
                                        .eps = 1e-5};
constexpr DecoderDefaults kIquestCoder = {.vocab = 76800,
                                          .hidden = 5120,
                                          .ffn = 27648,
                                          .n_layers = 80,
                                          .n_heads = 40,
                                          .n_kv_heads = 8,
                                          .head_dim = 128,
                                          .max_positions = 131072,
                                          .eps = 1e-5};

std::unique_ptr<Model> make_llama(const Json& config, const PlainForm& form,
                                  const DecoderDefaults& defaults = kDefaults) {
  const DecoderDims dims = read_decoder_dims(config, defaults);
  const std::vector<int64_t> windows(static_cast<size_t>(dims.n_layers), 0);
  return std::make_unique<PlainDecoder>(config, dims, read_rope(text_config(config), dims.head_dim, {}), form, windows);
}

PlainForm read_biases(const Json& text) {
  const Bias attention = read_bias(text, "attention_bias");
  return {{attention, attention}, read_bias(text, "mlp_bias")};
}

/// What is in the code that models were published with, and neither in the reference framework nor in servers.
void refuse_clips_and_windows(const Json& config) {
  if (read_clip(config) > 0) fail("clip_qkv is set, which no server reads for this class");
  if (get_bool_or(config, "use_sliding_window", false))
    fail("use_sliding_window is true, which no server reads for this class");
}

/// vLLM builds other layers where the config has these.
void refuse_other_pangu(const Json& config) {
  for (const char* key : {"kv_lora_rank", "n_routed_experts", "param_sink_number"})
    if (find_member(config, key)) fail(std::string(key) + " is given; this class is read as Llama");
  if (get_bool_or(config, "sandwich_norm", false)) fail("sandwich_norm is true; this class is read as Llama");
}

}  // namespace

std::unique_ptr<Model> parse_llama(const Json& config) { return make_llama(config, read_biases(text_config(config))); }

std::unique_ptr<Model> parse_internlm3(const Json& given) {
  const Json config = with_usual_keys(given, {{"qkv_bias", "attention_bias"}, {"bias", "mlp_bias"}});
  const PlainForm form = read_biases(config);
  if (form.attention.qkv != form.mlp) fail("qkv_bias and bias differ, which the reference framework refuses too");
  return make_llama(config, form, kInternLm3);
}

std::unique_ptr<Model> parse_iquest_coder(const Json& config) {
  refuse_clips_and_windows(config);
  return make_llama(config, read_biases(config), kIquestCoder);
}

std::unique_ptr<Model> parse_xverse(const Json& config) {
  for (const char* key : {"attention_bias", "mlp_bias", "tie_word_embeddings"})
    if (get_bool_or(config, key, false)) fail(std::string(key) + " is true, which no server reads for this class");
  return make_llama(config, {});
}

std::unique_ptr<Model> parse_llama_alias(const Json& config) {
  refuse_clips_and_windows(config);
  const bool attention = get_bool_or(config, "attention_bias", false) || get_bool_or(config, "bias", false);
  const Bias output = attention ? Bias::Present : Bias::None;
  return make_llama(config, {{read_bias(config, "qkv_bias", attention), output}, read_bias(config, "mlp_bias")});
}

std::unique_ptr<Model> parse_pangu_embedded(const Json& config) {
  refuse_other_pangu(config);
  return parse_llama_alias(config);
}

}  // namespace kvcal
