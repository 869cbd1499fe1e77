// Jais2ForCausalLM: Llama with layer norms, a feed-forward of two projections and a squared ReLU between them, and
// biases on all projections unless attention_bias and mlp_bias say otherwise.
#include "model/archs/archs.h"
#include "model/layer_norm_decoder.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 150272,
                                       .hidden = 3328,
                                       .ffn = 26624,
                                       .n_layers = 32,
                                       .n_heads = 26,
                                       .n_kv_heads = 0,
                                       .head_dim = 0,
                                       .max_positions = 8192,
                                       .act = Activation::Relu2,
                                       .eps_key = "layer_norm_eps",
                                       .eps = 1e-5};

class Jais2 final : public LayerNormModel {
 public:
  explicit Jais2(const Json& config) : LayerNormModel(config, read_decoder_dims(config, kDefaults)) {
    const Json& text = text_config(config);
    rope_ = read_rope(text, dims_.head_dim, {});
    attention_bias_ = get_bool_or(text, "attention_bias", true) ? Bias::Present : Bias::None;
    mlp_bias_ = get_bool_or(text, "mlp_bias", true) ? Bias::Present : Bias::None;
    const int64_t norms = 4 * dims_.hidden;
    const int64_t parameters = ungated_parameters(dims_, {attention_bias_, attention_bias_, mlp_bias_}) + norms;
    for (int64_t i = 0; i < dims_.n_layers; ++i) add_layer(rope_, "self_attn", parameters);
  }

 private:
  std::unique_ptr<Block> load_layer(const KvLayout& cache, WeightLoader& loader, WeightBinder w) const override {
    const DecoderDims& d = dims_;
    NormedWeights weights = {
        load_layer_norm(loader, w, "input_layernorm", d.hidden, d.eps),
        load_layer_norm(loader, w, "post_attention_layernorm", d.hidden, d.eps),
        load_qkv(loader, w, d, attention_bias_),
        load_output_projection(loader, w, "self_attn.o_proj", d.hidden, {d.n_heads, d.head_dim}, attention_bias_),
        loader.load_mlp(projection(w, "mlp.up_proj", d.ffn, d.hidden, mlp_bias_),
                        projection(w, "mlp.down_proj", d.hidden, d.ffn, mlp_bias_), Activation::Relu2)};
    return std::make_unique<SequentialBlock>(cache, rope_, std::move(weights));
  }

  RopeSpec rope_;
  Bias attention_bias_ = Bias::None, mlp_bias_ = Bias::None;
};

}  // namespace

std::unique_ptr<Model> parse_jais2(const Json& config) { return std::make_unique<Jais2>(config); }

}  // namespace kvcal
