// OlmoForCausalLM (OLMo 1 and 1.7): Llama with layer norms that have neither gain nor bias, with an epsilon of 1e-5
// whatever the config says. clip_qkv clamps q, k and v before RoPE.
#include "model/archs/archs.h"
#include "model/decoders/layer_norm_decoder.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {
    .vocab = 50304, .hidden = 4096, .ffn = 11008, .n_layers = 32, .n_heads = 32, .max_positions = 2048};
const Norm kNorm = {Norm::Kind::Layer, 1e-5f, {}, {}};

class Olmo1 final : public AttentionModel {
 public:
  explicit Olmo1(const Json& config) : AttentionModel(config, read_decoder_dims(config, kDefaults)) {
    const Json& text = text_config(config);
    rope_ = read_rope(text, dims_.head_dim, {});
    bias_ = read_bias(text, "attention_bias");
    clip_ = read_clip(text);
    spec_.table_parameters = -dims_.hidden;  // the last norm has no gain
    for (int64_t i = 0; i < dims_.n_layers; ++i) {
      add_attention_layer(spec_, dims_, rope_, 0);
      if (clip_ > 0) spec_.layers.back().attention.obstacle = "its queries, keys and values are clipped";
    }
  }

  std::unique_ptr<Head> load_head(WeightLoader& loader, WeightBinder& weights, WeightBinder& head) const override {
    return load_output_head(spec_, kNorm, {}, loader, weights, head);
  }

 private:
  std::unique_ptr<Block> load_layer(const KvLayout& cache, WeightLoader& loader, WeightBinder w) const override {
    const DecoderDims& d = dims_;
    NormedWeights weights = {
        kNorm, kNorm, load_qkv(loader, w, d, bias_),
        load_output_projection(loader, w, "self_attn.o_proj", d.hidden, {d.n_heads, d.head_dim}, bias_),
        GluMlp(loader, w.at("mlp."), d.hidden, d.ffn).w};
    weights.clip = clip_;
    return make_normed_block(cache, rope_, std::move(weights));
  }

  RopeSpec rope_;
  Bias bias_ = Bias::None;
  float clip_ = 0;
};

}  // namespace

std::unique_ptr<Model> parse_olmo(const Json& config) { return std::make_unique<Olmo1>(config); }

}  // namespace kvcal
