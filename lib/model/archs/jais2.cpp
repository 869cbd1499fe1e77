// Jais2ForCausalLM: Llama with layer norms, a feed-forward of two projections and a squared ReLU between them, and
// biases on all projections unless attention_bias and mlp_bias say otherwise.
#include "model/archs/archs.h"
#include "model/decoders/layer_norm_decoder.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 150272,
                                       .hidden = 3328,
                                       .ffn = 26624,
                                       .n_layers = 32,
                                       .n_heads = 26,
                                       .max_positions = 8192,
                                       .act = Activation::Relu2,
                                       .eps_key = "layer_norm_eps",
                                       .eps = 1e-5};

}  // namespace

std::unique_ptr<Model> parse_jais2(const Json& config) {
  return std::make_unique<SquaredReluDecoder>(config, kDefaults, RopeDefaults{}, Bias::Present);
}

}  // namespace kvcal
