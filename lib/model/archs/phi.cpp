// PhiForCausalLM (Phi-1, 1.5 and 2): attention and feed-forward side by side behind one layer norm, RoPE over a part of
// a head, biases everywhere, on the output head too. With qk_layernorm every head of q and k is normed, all with one
// gain and bias.
#include "model/archs/archs.h"
#include "model/decoders/layer_norm_decoder.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 51200,
                                       .hidden = 2048,
                                       .ffn = 8192,
                                       .n_layers = 24,
                                       .n_heads = 32,
                                       .max_positions = 2048,
                                       .act = Activation::GeluTanh,
                                       .eps_key = "layer_norm_eps",
                                       .eps = 1e-5};
constexpr RopeDefaults kRopeDefaults = {10000, 0.5};
constexpr Bias kBias = Bias::Present;

DecoderDims read_dims(const Json& config) {
  DecoderDefaults defaults = kDefaults;
  defaults.act = read_activation(text_config(config), defaults.act_key, defaults.act);
  return read_decoder_dims(config, defaults);
}

class Phi final : public LayerNormModel {
 public:
  explicit Phi(const Json& config) : LayerNormModel(config, read_dims(config)) {
    const Json& text = text_config(config);
    if (find_member(text, "n_embd"))
      fail(
          "n_embd is a key of Phi's first files, whose names are others: convert them to those of the reference class");
    rope_ = read_rope(text, dims_.head_dim, kRopeDefaults);
    act_ = read_activation(text, kDefaults.act_key, kDefaults.act);
    qk_norm_ = get_bool_or(text, "qk_layernorm", false);
    spec_.final_norm = "final_layernorm.weight";
    logits_.bias = kBias;
    for (int64_t i = 0; i < dims_.n_layers; ++i) {
      add_layer(rope_, "self_attn");
      AttentionTensors& tensors = spec_.layers.back().attention;
      tensors.output = "dense";
      if (qk_norm_) tensors.obstacle = "its norms of q and k have biases";
    }
  }

 private:
  std::unique_ptr<Block> load_layer(const KvLayout& cache, WeightLoader& loader, WeightBinder w) const override {
    const DecoderDims& d = dims_;
    NormedWeights weights = {
        load_layer_norm(loader, w, "input_layernorm", d.hidden, d.eps), std::nullopt, load_qkv(loader, w, d, kBias),
        load_output_projection(loader, w, "self_attn.dense", d.hidden, {d.n_heads, d.head_dim}, kBias),
        loader.load_mlp(projection(w, "mlp.fc1", d.ffn, d.hidden, kBias),
                        projection(w, "mlp.fc2", d.hidden, d.ffn, kBias), act_)};
    if (qk_norm_) {
      weights.q_norm = load_layer_norm(loader, w, "self_attn.q_layernorm", d.head_dim, d.eps);
      weights.k_norm = load_layer_norm(loader, w, "self_attn.k_layernorm", d.head_dim, d.eps);
    }
    return make_normed_block(cache, rope_, std::move(weights), true);
  }

  RopeSpec rope_;
  Activation act_ = Activation::GeluTanh;
  bool qk_norm_ = false;
};

}  // namespace

std::unique_ptr<Model> parse_phi(const Json& config) { return std::make_unique<Phi>(config); }

}  // namespace kvcal
