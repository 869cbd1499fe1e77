// MellumForCausalLM (Mellum 2): Qwen3's attention and mixtures, with a window and a RoPE base of their own in some
// layers.
#include "model/archs/archs.h"
#include "model/decoders/moe_decoder.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 98304,
                                       .hidden = 2304,
                                       .ffn = 7168,
                                       .n_layers = 28,
                                       .n_heads = 32,
                                       .n_kv_heads = 4,
                                       .head_dim = 128,
                                       .max_positions = 131072};
constexpr MoeDefaults kMoeDefaults = {64, 8, 896};
constexpr int64_t kDefaultWindow = 1024;
constexpr RopeDefaults kFullRope = {500000}, kSlidingRope = {10000};

MoeParts load(const MoeDims& dims, WeightLoader& loader, WeightBinder layer) {
  return load_moe(dims, {}, loader, layer.at("mlp."));
}

RopeSpec read_rope_of(const Json& text, int64_t head_dim, bool slides) {
  const RopeDefaults defaults = slides ? kSlidingRope : kFullRope;
  if (!find_member(text, "rope_parameters")) return read_rope(Json::object(), head_dim, defaults);
  const char* kind = slides ? "sliding_attention" : "full_attention";
  const auto own = rope_config_of_kind(text, kind);
  if (!own || !find_member(*own, "rope_parameters")) fail("rope_parameters has no " + quoted(std::string(kind)));
  return read_rope(*own, head_dim, defaults);
}

// All attend to everything unless layer_types says otherwise.
std::vector<int64_t> read_mellum_windows(const Json& text, int64_t n_layers) {
  if (!find_member(text, "layer_types")) return std::vector<int64_t>(static_cast<size_t>(n_layers), 0);
  return read_windows(text, n_layers, kDefaultWindow);
}

}  // namespace

std::unique_ptr<Model> parse_mellum(const Json& config) {
  const Json& text = text_config(config);
  MoeDecoderConfig c;
  c.dims = read_decoder_dims(config, kDefaults);
  const Bias bias = read_bias(text, "attention_bias");
  c.attention = {bias, bias, QkNorm::PerHead};
  c.windows = read_mellum_windows(text, c.dims.n_layers);
  for (const int64_t window : c.windows) c.ropes.push_back(read_rope_of(text, c.dims.head_dim, window > 0));
  c.moe = read_qwen_moe_dims(text, c.dims.hidden, kMoeDefaults);
  c.load = load;
  c.sparse = read_late_sparse_layers(text, c.dims.n_layers, c.moe.n_experts, 0);
  return std::make_unique<MoeDecoder>(config, std::move(c));
}

}  // namespace kvcal
