// ExaoneMoEForCausalLM (K-EXAONE), ExaoneMoeForCausalLM to the reference framework: attention of EXAONE 4 behind norms,
// not before them; experts chosen by biased sigmoid scores beside a shared one. Layers with a window rotate, the others
// do not; without any window all rotate.
#include <algorithm>

#include "model/archs/archs.h"
#include "model/archs/exaone4_windows.h"
#include "model/decoders/moe_decoder.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 102400,
                                       .hidden = 4096,
                                       .ffn = 16384,
                                       .n_layers = 32,
                                       .n_heads = 32,
                                       .n_kv_heads = 32,
                                       .max_positions = 2048,
                                       .eps = 1e-5};
constexpr BiasedMoeDefaults kMoeDefaults = {
    .n_experts = 64,
    .n_active = 8,
    .ffn = 1024,
    .n_shared = 1,
    .scale = 2.5,
    .experts_key = "num_experts",
    .shared_key = "num_shared_experts",
};

// Published at the module, saved by the reference framework at the router.
MoeParts load(const MoeDims& dims, WeightLoader& loader, WeightBinder layer) {
  const WeightBinder w = layer.at("mlp.");
  const char* bias = w.has("e_score_correction_bias") ? "e_score_correction_bias" : "gate.e_score_correction_bias";
  return load_moe(dims, {.choice_bias = bias}, loader, w);
}

// Servers know variants of each that the reference class does not have.
void require_the_known_variant(const Json& text) {
  for (const char* key : {"attention_bias", "mlp_bias"})
    if (get_bool_or(text, key, false)) fail(std::string(key) + " is not supported for this architecture");
  for (const char* key : {"sliding_windows", "swiglu_limits"})
    if (find_member(text, key)) fail(std::string(key) + " differs by layer; that is not supported");
  if (get_number_or(text, "logit_scale", 1) != 1) fail("logit_scale is not supported for this architecture");
}

}  // namespace

std::unique_ptr<Model> parse_exaone_moe(const Json& config) {
  const Json& text = text_config(config);
  require_the_known_variant(text);
  MoeDecoderConfig c;
  c.dims = read_decoder_dims(config, kDefaults);
  c.windows = read_exaone4_windows(text, c.dims.n_layers);
  const RopeSpec rope = read_rope(text, c.dims.head_dim, {});
  const bool all_rotate = std::ranges::count(c.windows, 0) == c.dims.n_layers;
  for (const int64_t window : c.windows) c.ropes.push_back(all_rotate || window > 0 ? rope : RopeSpec{});
  c.attention.norm = QkNorm::PerHead;
  c.moe = read_biased_moe_dims(text, c.dims.hidden, kMoeDefaults);
  c.load = load;
  c.sparse = read_late_sparse_layers(text, c.dims.n_layers, c.moe.n_experts, 1);
  return std::make_unique<MoeDecoder>(config, std::move(c));
}

}  // namespace kvcal
