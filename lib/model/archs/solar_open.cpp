// SolarOpenForCausalLM (Solar Open): plain attention, in every layer experts chosen by biased sigmoid scores beside a
// shared one.
#include "model/archs/archs.h"
#include "model/decoders/moe_decoder.h"
#include "model/rope.h"

namespace kvcal {
namespace {

// There is no dense layer, hence no intermediate_size of one.
constexpr DecoderDefaults kDefaults = {.vocab = 196608,
                                       .hidden = 4096,
                                       .ffn = 10240,
                                       .n_layers = 48,
                                       .n_heads = 64,
                                       .n_kv_heads = 8,
                                       .head_dim = 128,
                                       .max_positions = 131072,
                                       .eps = 1e-5};
constexpr BiasedMoeDefaults kMoeDefaults = {128, 8, 1280, 1};
constexpr RopeDefaults kRopeDefaults = {1000000};

MoeParts load(const MoeDims& dims, WeightLoader& loader, WeightBinder layer) {
  return load_moe(dims, {.choice_bias = "gate.e_score_correction_bias"}, loader, layer.at("mlp."));
}

}  // namespace

std::unique_ptr<Model> parse_solar_open(const Json& config) {
  const Json& text = text_config(config);
  if (get_int_or(text, "first_k_dense_replace", 0) != 0)
    fail("first_k_dense_replace is not 0; the class is read with experts in every layer");
  if (get_bool_or(text, "use_qk_norm", false)) fail("use_qk_norm is true; the class is read without norms of q and k");
  MoeDecoderConfig c;
  c.dims = read_decoder_dims(config, kDefaults);
  c.rope = read_rope(text, c.dims.head_dim, kRopeDefaults);
  if (get_bool_or(text, "attention_bias", false)) c.attention.qkv = Bias::Present;
  c.moe = read_biased_moe_dims(text, c.dims.hidden, kMoeDefaults);
  c.load = load;
  make_uniform(c);
  return std::make_unique<MoeDecoder>(config, std::move(c));
}

}  // namespace kvcal
