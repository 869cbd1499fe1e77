// Glm4MoeForCausalLM: GLM-4.5 to 4.7. Glm4vMoeForConditionalGeneration (GLM-4.5V, 4.6V), the language model: the same
// with three rows of positions. Biases on q, k, v, norms of q and k only in some sizes, RoPE over half of a head;
// the first layers dense, then experts chosen by biased sigmoid scores, and shared ones (docs/model-notes.md, "Choosing
// experts").
#include <algorithm>

#include "model/archs/archs.h"
#include "model/decoders/moe_decoder.h"
#include "model/decoders/nextn.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 151552,
                                       .hidden = 4096,
                                       .ffn = 10944,
                                       .n_layers = 46,
                                       .n_heads = 96,
                                       .n_kv_heads = 8,
                                       .max_positions = 131072,
                                       .eps = 1e-5};
constexpr DecoderDefaults kVisionDefaults = {.vocab = 151424,
                                             .hidden = 4096,
                                             .ffn = 10944,
                                             .n_layers = 46,
                                             .n_heads = 96,
                                             .n_kv_heads = 8,
                                             .max_positions = 65536,
                                             .eps = 1e-5};
constexpr RopeDefaults kRopeDefaults = {10000, 0.5};
constexpr BiasedMoeDefaults kMoeDefaults = {128, 8, 1408, 1};
constexpr MoeNames kNames = {.choice_bias = "gate.e_score_correction_bias"};

MoeParts load(const MoeDims& dims, WeightLoader& loader, WeightBinder layer) {
  return load_moe(dims, kNames, loader, layer.at("mlp."));
}

/// All but the rotation.
MoeDecoderConfig read(const Json& config, const DecoderDefaults& defaults, bool biased) {
  const Json& text = text_config(config);
  MoeDecoderConfig c;
  c.dims = read_decoder_dims(config, defaults);
  if (get_bool_or(text, "attention_bias", biased)) c.attention.qkv = Bias::Present;
  if (get_bool_or(text, "use_qk_norm", false)) c.attention.norm = QkNorm::PerHead;
  c.moe = read_biased_moe_dims(text, c.dims.hidden, kMoeDefaults);
  c.load = load;
  make_uniform(c);
  const int64_t dense = get_int_or(text, "first_k_dense_replace", 1);
  for (int64_t i = 0; i < std::min(dense, c.dims.n_layers); ++i) c.sparse[static_cast<size_t>(i)] = false;
  return c;
}

}  // namespace

std::unique_ptr<Model> parse_glm4_moe(const Json& config) {
  MoeDecoderConfig c = read(config, kDefaults, false);
  c.rope = read_rope(text_config(config), c.dims.head_dim, kRopeDefaults);
  c.mtp = read_nextn(text_config(config), c.dims.n_layers);
  return std::make_unique<MoeDecoder>(config, std::move(c));
}

std::unique_ptr<Model> parse_glm4v_moe(const Json& config) {
  MoeDecoderConfig c = read(config, kVisionDefaults, true);
  c.rope = read_rope(with_mrope_sections(text_config(config), {8, 12, 12}, false), c.dims.head_dim, kRopeDefaults);
  c.default_prefix = "model.language_model.";
  return std::make_unique<MoeDecoder>(config, std::move(c));
}

}  // namespace kvcal
