// Starcoder2ForCausalLM: layer norms with bias, biases on all projections with use_bias, a feed-forward without gate,
// one window for all layers.
#include "model/archs/archs.h"
#include "model/decoders/layer_norm_decoder.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 49152,
                                       .hidden = 3072,
                                       .ffn = 12288,
                                       .n_layers = 30,
                                       .n_heads = 24,
                                       .n_kv_heads = 2,
                                       .max_positions = 4096,
                                       .tied_head = true,
                                       .act = Activation::GeluTanh,
                                       .eps_key = "norm_epsilon",
                                       .eps = 1e-5};

class Starcoder2 final : public LayerNormModel {
 public:
  explicit Starcoder2(const Json& config) : LayerNormModel(config, read_decoder_dims(config, kDefaults)) {
    const Json& text = text_config(config);
    rope_ = read_rope(text, dims_.head_dim, {});
    bias_ = read_bias(text, "use_bias", true);
    const int64_t window = find_member(text, "sliding_window") ? read_size(text, "sliding_window") : 0;
    for (int64_t i = 0; i < dims_.n_layers; ++i) add_layer(rope_, "self_attn").window = window;
  }

 private:
  std::unique_ptr<Block> load_layer(const KvLayout& cache, WeightLoader& loader, WeightBinder w) const override {
    const DecoderDims& d = dims_;
    NormedWeights weights = {
        load_layer_norm(loader, w, "input_layernorm", d.hidden, d.eps),
        load_layer_norm(loader, w, "post_attention_layernorm", d.hidden, d.eps), load_qkv(loader, w, d, bias_),
        load_output_projection(loader, w, "self_attn.o_proj", d.hidden, {d.n_heads, d.head_dim}, bias_),
        loader.load_mlp(projection(w, "mlp.c_fc", d.ffn, d.hidden, bias_),
                        projection(w, "mlp.c_proj", d.hidden, d.ffn, bias_), Activation::GeluTanh)};
    return make_normed_block(cache, rope_, std::move(weights));
  }

  RopeSpec rope_;
  Bias bias_ = Bias::None;
};

}  // namespace

std::unique_ptr<Model> parse_starcoder2(const Json& config) { return std::make_unique<Starcoder2>(config); }

}  // namespace kvcal
