// NemotronForCausalLM (Nemotron 3 and 4, Minitron): layer norms whose gain is 1 + w, rounded to the activations' dtype
// as the reference and vLLM do; RoPE over half of a head; a feed-forward with a squared ReLU and no gate.
#include "model/archs/archs.h"
#include "model/layer_norm_decoder.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 256000,
                                       .hidden = 6144,
                                       .ffn = 24576,
                                       .n_layers = 32,
                                       .n_heads = 48,
                                       .n_kv_heads = 0,
                                       .head_dim = 0,
                                       .max_positions = 4096,
                                       .act = Activation::Relu2,
                                       .eps_key = "norm_eps",
                                       .eps = 1e-5};
constexpr RopeDefaults kRopeDefaults = {10000, 0.5};

Norm load_one_plus(WeightLoader& loader, WeightBinder& w, const std::string& name, const DecoderDims& d) {
  const Tensor stored = w(name + ".weight", {d.hidden});
  std::vector<float> gain(static_cast<size_t>(d.hidden));
  convert_to_float(stored.dtype, stored.data, gain.data(), gain.size());
  for (float& g : gain) {
    g += 1;
    if (loader.precision() == Precision::BF16) g = to_float(to_bf16(g));
  }
  return {Norm::Kind::Layer, d.eps, loader.load_f32({gain.data(), {d.hidden}, DType::F32}),
          loader.load_f32(w(name + ".bias", {d.hidden}))};
}

class Nemotron final : public LayerNormModel {
 public:
  explicit Nemotron(const Json& config) : LayerNormModel(config, read_decoder_dims(config, kDefaults)) {
    const Json& text = text_config(config);
    rope_ = read_rope(text, dims_.head_dim, kRopeDefaults);
    attention_bias_ = get_bool_or(text, "attention_bias", false) ? Bias::Present : Bias::None;
    mlp_bias_ = get_bool_or(text, "mlp_bias", false) ? Bias::Present : Bias::None;
    const int64_t parameters =
        ungated_parameters(dims_, {attention_bias_, attention_bias_, mlp_bias_}) + 4 * dims_.hidden;
    for (int64_t i = 0; i < dims_.n_layers; ++i) add_layer(rope_, "self_attn", parameters);
  }

  std::unique_ptr<Head> load_head(WeightLoader& loader, WeightBinder& weights, WeightBinder& head) const override {
    return load_output_head(spec_, load_one_plus(loader, weights, "norm", dims_), {}, loader, weights, head);
  }

 private:
  std::unique_ptr<Block> load_layer(const KvLayout& cache, WeightLoader& loader, WeightBinder w) const override {
    const DecoderDims& d = dims_;
    NormedWeights weights = {
        load_one_plus(loader, w, "input_layernorm", d), load_one_plus(loader, w, "post_attention_layernorm", d),
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

std::unique_ptr<Model> parse_nemotron(const Json& config) { return std::make_unique<Nemotron>(config); }

}  // namespace kvcal
