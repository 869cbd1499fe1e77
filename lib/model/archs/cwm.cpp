// CwmForCausalLM: Llama of which every fourth layer, from the first one on, sees all and the others have a window.
#include "model/archs/archs.h"
#include "model/decoders/plain_decoder.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 128256,
                                       .hidden = 6144,
                                       .ffn = 21504,
                                       .n_layers = 64,
                                       .n_heads = 48,
                                       .n_kv_heads = 8,
                                       .head_dim = 128,
                                       .max_positions = 131072,
                                       .eps = 1e-5};
constexpr RopeDefaults kRopeDefaults = {1000000};
constexpr int64_t kDefaultWindow = 8192, kDefaultPeriod = 4;

/// Where nothing says how, the class scales its rotation, whatever rope_theta is.
Json with_default_rope(const Json& text) {
  if (find_member(text, "rope_parameters") || find_member(text, "rope_scaling")) return text;
  if (const double theta = get_number_or(text, "rope_theta", kRopeDefaults.theta); theta != kRopeDefaults.theta)
    fail("rope_theta is " + Json(theta).dump() + " and there is no rope_scaling: the class then takes 1000000");
  Json out = text;
  out["rope_parameters"] = {{"rope_type", "llama3"}, {"rope_theta", kRopeDefaults.theta},
                            {"factor", 16},          {"low_freq_factor", 1},
                            {"high_freq_factor", 4}, {"original_max_position_embeddings", 8192}};
  return out;
}

std::vector<int64_t> read_windows_of(const Json& text, int64_t n_layers) {
  std::vector<int64_t> windows = read_windows(text, n_layers, kDefaultWindow);
  if (find_member(text, "layer_types")) return windows;
  for (size_t i = 0; i < windows.size(); i += kDefaultPeriod) windows[i] = 0;
  return windows;
}

}  // namespace

std::unique_ptr<Model> parse_cwm(const Json& config) {
  const Json& text = text_config(config);
  const DecoderDims dims = read_decoder_dims(config, kDefaults);
  if (get_bool_or(text, "attention_bias", false)) fail("attention_bias is true, which this class does not have");
  return std::make_unique<PlainDecoder>(config, dims, read_rope(with_default_rope(text), dims.head_dim, kRopeDefaults),
                                        PlainForm{.mlp = read_bias(text, "mlp_bias")},
                                        read_windows_of(text, dims.n_layers));
}

}  // namespace kvcal
