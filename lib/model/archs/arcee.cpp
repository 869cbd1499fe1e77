// ArceeForCausalLM (AFM): Llama with a feed-forward of two projections and a squared ReLU between them. Biases on q, k,
// v, o with attention_bias, on the feed-forward with mlp_bias.
#include "model/archs/archs.h"
#include "model/plain_decoder.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 32000,
                                       .hidden = 2560,
                                       .ffn = 18432,
                                       .n_layers = 32,
                                       .n_heads = 32,
                                       .n_kv_heads = 0,
                                       .head_dim = 0,
                                       .max_positions = 4096,
                                       .act = Activation::Relu2,
                                       .eps = 1e-5};

class Arcee final : public AttentionModel {
 public:
  explicit Arcee(const Json& config) : AttentionModel(config, read_decoder_dims(config, kDefaults)) {
    const Json& text = text_config(config);
    rope_ = read_rope(text, dims_.head_dim, {});
    attention_bias_ = get_bool_or(text, "attention_bias", false) ? Bias::Present : Bias::None;
    mlp_bias_ = get_bool_or(text, "mlp_bias", false) ? Bias::Present : Bias::None;
    for (int64_t i = 0; i < dims_.n_layers; ++i) add_attention_layer(spec_, dims_, rope_, 0);
  }

 private:
  std::unique_ptr<Block> load_layer(const KvLayout& cache, WeightLoader& loader, WeightBinder w) const override {
    const DecoderDims& d = dims_;
    DecoderWeights weights = {
        loader.load_gain(w("input_layernorm.weight", {d.hidden}), Gain::Plain),
        loader.load_gain(w("post_attention_layernorm.weight", {d.hidden}), Gain::Plain),
        load_qkv(loader, w, d, attention_bias_),
        load_output_projection(loader, w, "self_attn.o_proj", d.hidden, {d.n_heads, d.head_dim}, attention_bias_),
        loader.load_mlp(projection(w, "mlp.up_proj", d.ffn, d.hidden, mlp_bias_),
                        projection(w, "mlp.down_proj", d.hidden, d.ffn, mlp_bias_), Activation::Relu2)};
    return std::make_unique<PlainDecoderBlock>(cache, rope_, d.eps, std::move(weights));
  }

  RopeSpec rope_;
  Bias attention_bias_ = Bias::None, mlp_bias_ = Bias::None;
};

}  // namespace

std::unique_ptr<Model> parse_arcee(const Json& config) { return std::make_unique<Arcee>(config); }

}  // namespace kvcal
