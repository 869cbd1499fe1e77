// MixtralForCausalLM: attention of Mistral, experts in every layer, weights always renormalized. The window, absent by
// default, covers every layer.
#include "model/archs/archs.h"
#include "model/decoders/moe_decoder.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 32000,
                                       .hidden = 4096,
                                       .ffn = 14336,
                                       .n_layers = 32,
                                       .n_heads = 32,
                                       .n_kv_heads = 8,
                                       .max_positions = 131072,
                                       .eps = 1e-5};
constexpr RopeDefaults kRopeDefaults = {1000000};
constexpr int64_t kDefaultExperts = 8, kDefaultActive = 2;

constexpr MoeNames kNames = {.gate = "w1", .up = "w3", .down = "w2"};

MoeParts load(const MoeDims& dims, WeightLoader& loader, WeightBinder layer) {
  return load_moe(dims, kNames, loader, layer.at(moe_module(layer, kNames)));
}

}  // namespace

std::unique_ptr<Model> parse_mixtral(const Json& config) {
  const Json& text = text_config(config);
  MoeDecoderConfig c;
  c.dims = read_decoder_dims(config, kDefaults);
  c.rope = read_rope(text, c.dims.head_dim, kRopeDefaults);
  c.moe.hidden = c.dims.hidden;
  c.moe.n_experts = read_size(text, "num_local_experts", kDefaultExperts);
  c.moe.ffn = c.dims.ffn;
  c.moe.routing = {.k = get_int_or(text, "num_experts_per_tok", kDefaultActive), .renormalize = true};
  check_moe_dims(c.moe);
  c.load = load;
  make_uniform(c);
  if (find_member(text, "sliding_window")) c.windows.assign(c.windows.size(), read_size(text, "sliding_window"));
  return std::make_unique<MoeDecoder>(config, std::move(c));
}

}  // namespace kvcal
