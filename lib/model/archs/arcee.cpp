// ArceeForCausalLM (AFM): Llama with a feed-forward of two projections and a squared ReLU between them. Biases on q, k,
// v, o with attention_bias, on the feed-forward with mlp_bias.
#include "model/archs/archs.h"
#include "model/decoders/plain_decoder.h"
#include "model/layers/decoder_block.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 32000,
                                       .hidden = 2560,
                                       .ffn = 18432,
                                       .n_layers = 32,
                                       .n_heads = 32,
                                       .max_positions = 4096,
                                       .act = Activation::Relu2,
                                       .eps = 1e-5};

class Arcee final : public AttentionModel {
 public:
  explicit Arcee(const Json& config) : AttentionModel(config, read_decoder_dims(config, kDefaults)) {
    const Json& text = text_config(config);
    rope_ = read_rope(text, dims_.head_dim, {});
    attention_bias_ = read_bias(text, "attention_bias");
    mlp_bias_ = read_bias(text, "mlp_bias");
    for (int64_t i = 0; i < dims_.n_layers; ++i) add_attention_layer(spec_, dims_, rope_, 0);
  }

 private:
  std::unique_ptr<Block> load_layer(const KvLayout& cache, WeightLoader& loader, WeightBinder w) const override {
    const DecoderDims& d = dims_;
    const RmsNorms norm{loader, w, d.hidden, d.eps};
    DecoderBlockParts parts{.before_mixer = norm("input_layernorm"), .before_ffn = norm("post_attention_layernorm")};
    const AttentionForm form{.qkv = attention_bias_, .o = attention_bias_};
    parts.mixer = std::make_unique<SelfAttention>(d, cache, rope_, form, loader, w);
    parts.ffn = GluMlp(loader.load_mlp(projection(w, "mlp.up_proj", d.ffn, d.hidden, mlp_bias_),
                                       projection(w, "mlp.down_proj", d.hidden, d.ffn, mlp_bias_), Activation::Relu2));
    return std::make_unique<DecoderBlock>(std::move(parts));
  }

  RopeSpec rope_;
  Bias attention_bias_ = Bias::None, mlp_bias_ = Bias::None;
};

}  // namespace

std::unique_ptr<Model> parse_arcee(const Json& config) { return std::make_unique<Arcee>(config); }

}  // namespace kvcal
