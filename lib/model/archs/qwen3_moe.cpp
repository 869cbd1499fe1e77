// Qwen3MoeForCausalLM: attention of Qwen3, a mixture of experts in every layer but those that mlp_only_layers and
// decoder_sparse_step leave dense. A sliding window, where it is used, covers every layer.
// Qwen3VLMoeForConditionalGeneration, the language model: the same with mRoPE, without windows, with fused experts that
// are published transposed, and the streams of Qwen3-VL's tower added behind the first layers.
// Qwen3OmniMoeForConditionalGeneration, its thinker: as that, with the experts of Qwen3MoeForCausalLM.
#include "model/archs/archs.h"
#include "model/decoders/moe_decoder.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 151936,
                                       .hidden = 2048,
                                       .ffn = 6144,
                                       .n_layers = 24,
                                       .n_heads = 32,
                                       .n_kv_heads = 4,
                                       .max_positions = 32768};
constexpr MoeDefaults kMoeDefaults = {128, 8, 768, 0, false};
constexpr DecoderDefaults kVlDefaults = {.vocab = 151936,
                                         .hidden = 2048,
                                         .ffn = 5632,
                                         .n_layers = 24,
                                         .n_heads = 16,
                                         .n_kv_heads = 16,
                                         .max_positions = 128000};
constexpr MoeDefaults kVlMoeDefaults = {60, 4, 1408, 0, true};
constexpr RopeDefaults kVlRopeDefaults = {500000};
constexpr DecoderDefaults kOmniDefaults = {.vocab = 3584,
                                           .hidden = 2048,
                                           .ffn = 18944,
                                           .n_layers = 28,
                                           .n_heads = 28,
                                           .n_kv_heads = 4,
                                           .max_positions = 32768};
constexpr MoeDefaults kOmniMoeDefaults = {128, 8, 768, 0, true};
constexpr RopeDefaults kOmniRopeDefaults = {1000000};

MoeParts load(const MoeDims& dims, WeightLoader& loader, WeightBinder layer) {
  return load_moe(dims, {}, loader, layer.at("mlp."));
}

MoeParts load_transposed(const MoeDims& dims, WeightLoader& loader, WeightBinder layer) {
  return load_moe(dims, {.transposed = true}, loader, layer.at("mlp."));
}

MoeDecoderConfig read(const Json& config, const DecoderDefaults& defaults, const MoeDefaults& moe_defaults) {
  const Json& text = text_config(config);
  MoeDecoderConfig c;
  c.dims = read_decoder_dims(config, defaults);
  const Bias bias = read_bias(text, "attention_bias");
  c.attention = {bias, bias, QkNorm::PerHead};
  c.moe = read_qwen_moe_dims(text, c.dims.hidden, moe_defaults);
  c.sparse = read_sparse_layers(text, c.dims.n_layers, c.moe.n_experts);
  c.windows.assign(c.sparse.size(), 0);
  return c;
}

class Qwen3VlMoe final : public MoeDecoder {
 public:
  Qwen3VlMoe(const Json& config, MoeDecoderConfig c) : MoeDecoder(config, std::move(c)) {
    read_deepstack(config, spec_);
  }
};

}  // namespace

std::unique_ptr<Model> parse_qwen3_moe(const Json& config) {
  MoeDecoderConfig c = read(config, kDefaults, kMoeDefaults);
  c.rope = read_rope(text_config(config), c.dims.head_dim, {});
  c.load = load;
  c.windows.assign(c.sparse.size(), read_used_window(text_config(config)));
  return std::make_unique<MoeDecoder>(config, std::move(c));
}

std::unique_ptr<Model> parse_qwen3_vl_moe(const Json& config) {
  MoeDecoderConfig c = read(config, kVlDefaults, kVlMoeDefaults);
  c.rope = read_rope(with_mrope_sections(text_config(config), {24, 20, 20}, true), c.dims.head_dim, kVlRopeDefaults);
  c.load = load_transposed;
  c.default_prefix = "model.language_model.";
  return std::make_unique<Qwen3VlMoe>(config, std::move(c));
}

std::unique_ptr<Model> parse_qwen3_omni_moe(const Json& config) {
  MoeDecoderConfig c = read(config, kOmniDefaults, kOmniMoeDefaults);
  const Json& text = text_config(config);
  c.rope = read_rope(with_mrope_sections(text, {24, 20, 20}, true), c.dims.head_dim, kOmniRopeDefaults);
  c.load = load;
  c.default_prefix = "thinker.model.";
  return std::make_unique<Qwen3VlMoe>(config, std::move(c));
}

}  // namespace kvcal
