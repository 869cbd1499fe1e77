// Ministral3ForCausalLM, and MistralForCausalLM with llama_4_scaling: Mistral whose queries are multiplied, after RoPE,
// by 1 + beta ln(1 + ⌊position / original⌋) (query_growth.h).
#include "model/archs/archs.h"
#include "model/decoders/plain_decoder.h"
#include "model/layers/query_growth.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 131072,
                                       .hidden = 4096,
                                       .ffn = 14336,
                                       .n_layers = 34,
                                       .n_heads = 32,
                                       .n_kv_heads = 8,
                                       .head_dim = 128,
                                       .max_positions = 262144,
                                       .eps = 1e-5};

// What the reference class assumes for a config without rope keys.
Json with_default_rope(const Json& text) {
  Json out = text;
  if (!find_member(text, "rope_parameters") && !find_member(text, "rope_scaling"))
    out["rope_parameters"] = {{"rope_type", "yarn"},
                              {"rope_theta", 1e6},
                              {"factor", 16.0},
                              {"original_max_position_embeddings", 16384},
                              {"mscale", 1.0},
                              {"mscale_all_dim", 1.0},
                              {"llama_4_scaling_beta", 0.1}};
  return out;
}

class Ministral3 final : public PlainDecoder {
 public:
  Ministral3(const Json& config, const Json& text, const DecoderDims& dims)
      : PlainDecoder(config, dims, read_rope(text, dims.head_dim, {}), PlainForm{.growth = read_query_growth(text)},
                     read_windows(text, dims.n_layers, 0)) {
    for (LayerSpec& layer : spec_.layers) layer.activations += dims_.n_heads * dims_.head_dim + 2;
  }
};

}  // namespace

std::unique_ptr<Model> parse_ministral3(const Json& config) {
  const DecoderDims dims = read_decoder_dims(config, kDefaults);
  const Json text = with_default_rope(text_config(config));
  if (find_member(text, "layer_types"))
    fail("layer_types in a Ministral3 config: the reference class ignores them; use the Ministral class");
  return std::make_unique<Ministral3>(config, text, dims);
}

}  // namespace kvcal
