// GlmForCausalLM and Glm4ForCausalLM: interleaved RoPE over half of a head, gate and up in one tensor, biases on q, k,
// v. GLM-4-0414 (Glm4) also norms what attention and feed-forward return. Glm4vForConditionalGeneration, the language
// model: Glm4 whose pairs turn by three rows of positions. The older ChatGLM files of the same models are another class
// with other names.
#include "model/archs/archs.h"
#include "model/decoders/plain_decoder.h"
#include "model/layers/decoder_block.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 151552,
                                       .hidden = 4096,
                                       .ffn = 13696,
                                       .n_layers = 40,
                                       .n_heads = 32,
                                       .n_kv_heads = 2,
                                       .head_dim = 128,
                                       .max_positions = 131072,
                                       .eps = 1.5625e-7};
constexpr RopeDefaults kRopeDefaults = {10000, 0.5};
constexpr DecoderDefaults kVisionDefaults = {.vocab = 151552,
                                             .hidden = 4096,
                                             .ffn = 13696,
                                             .n_layers = 40,
                                             .n_heads = 32,
                                             .n_kv_heads = 2,
                                             .max_positions = 32768,
                                             .eps = 1e-5};

class GlmBase : public AttentionModel {
 protected:
  GlmBase(const Json& config, bool vision)
      : AttentionModel(config, read_decoder_dims(config, vision ? kVisionDefaults : kDefaults)) {
    const Json& text = text_config(config);
    rope_ = vision ? read_rope(with_mrope_sections(text, {8, 12, 12}, false), dims_.head_dim, {})
                   : read_rope(text, dims_.head_dim, kRopeDefaults);
    rope_.interleaved = true;
    bias_ = read_bias(text, "attention_bias", true);
    for (int64_t i = 0; i < dims_.n_layers; ++i) add_attention_layer(spec_, dims_, rope_, 0);
  }

  DecoderBlockParts load_parts(const KvLayout& cache, OutputTo to, WeightLoader& loader, WeightBinder& w) const {
    const RmsNorms norm{loader, w, dims_.hidden, dims_.eps};
    DecoderBlockParts parts{.before_mixer = norm("input_layernorm"), .before_ffn = norm("post_attention_layernorm")};
    const AttentionForm form{.qkv = bias_, .to = to};
    parts.mixer = std::make_unique<SelfAttention>(dims_, cache, rope_, form, loader, w);
    WeightBinder mlp = w.at("mlp.");
    parts.ffn = GluMlp(load_fused_glu(loader, mlp, {"gate_up_proj", "down_proj"}, dims_.hidden, dims_.ffn));
    return parts;
  }

  RopeSpec rope_;
  Bias bias_ = Bias::Present;
};

class Glm final : public GlmBase {
 public:
  explicit Glm(const Json& config) : GlmBase(config, false) {}

 private:
  std::unique_ptr<Block> load_layer(const KvLayout& cache, WeightLoader& loader, WeightBinder w) const override {
    return std::make_unique<DecoderBlock>(load_parts(cache, OutputTo::Stream, loader, w));
  }
};

class Glm4 final : public GlmBase {
 public:
  explicit Glm4(const Json& config, bool vision = false) : GlmBase(config, vision) {
    for (KvLayout& cache : spec_.caches) cache.normed_output = true;
    for (LayerSpec& layer : spec_.layers) layer.activations += 2 * dims_.hidden;
  }

 private:
  std::unique_ptr<Block> load_layer(const KvLayout& cache, WeightLoader& loader, WeightBinder w) const override {
    DecoderBlockParts parts = load_parts(cache, OutputTo::Norm, loader, w);
    const RmsNorms norm{loader, w, dims_.hidden, dims_.eps};
    parts.after_mixer = norm("post_self_attn_layernorm");
    parts.after_ffn = norm("post_mlp_layernorm");
    return std::make_unique<DecoderBlock>(std::move(parts));
  }
};

}  // namespace

std::unique_ptr<Model> parse_glm(const Json& config) { return std::make_unique<Glm>(config); }
std::unique_ptr<Model> parse_glm4(const Json& config) { return std::make_unique<Glm4>(config); }
std::unique_ptr<Model> parse_glm4v(const Json& config) { return std::make_unique<Glm4>(config, true); }

}  // namespace kvcal
