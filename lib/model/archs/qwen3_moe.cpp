// Qwen3MoeForCausalLM: attention of Qwen3, a mixture of experts in every layer but those that mlp_only_layers and
// decoder_sparse_step leave dense (architectures.md 2). A sliding window, where it is used, covers every layer.
#include "model/archs/archs.h"
#include "model/moe_decoder.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {151936, 2048, 6144, 24, 32, 4, 0, 32768};
constexpr MoeDefaults kMoeDefaults = {128, 8, 768, 0, false};

MoeParts load(const MoeDims& dims, Ops& op, WeightBinder layer) { return load_moe(dims, {}, op, layer.at("mlp.")); }

}  // namespace

std::unique_ptr<Model> parse_qwen3_moe(const Json& config) {
  const Json& text = text_config(config);
  MoeDecoderConfig c;
  c.dims = read_decoder_dims(config, kDefaults);
  c.rope = read_rope(text, c.dims.head_dim, {});
  const Bias bias = get_bool_or(text, "attention_bias", false) ? Bias::Present : Bias::None;
  c.attention = {bias, bias, QkNorm::PerHead};
  c.moe = read_qwen_moe_dims(text, c.dims.hidden, kMoeDefaults);
  c.load = load;
  c.sparse = read_sparse_layers(text, c.dims.n_layers, c.moe.n_experts);
  c.windows.assign(c.sparse.size(), read_used_window(text));
  return std::make_unique<MoeDecoder>(config, std::move(c));
}

}  // namespace kvcal
