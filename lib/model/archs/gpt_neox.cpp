// GPTNeoXForCausalLM (GPT-NeoX-20B, Pythia, Dolly): layer norms, RoPE over the first quarter of a head, q, k and v in
// one weight head by head; attention and feed-forward side by side, each behind a norm of its own, unless
// use_parallel_residual is off.
#include "model/archs/archs.h"
#include "model/decoders/layer_norm_decoder.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 50432,
                                       .hidden = 6144,
                                       .ffn = 24576,
                                       .n_layers = 44,
                                       .n_heads = 64,
                                       .max_positions = 2048,
                                       .act = Activation::Gelu,
                                       .eps_key = "layer_norm_eps",
                                       .eps = 1e-5};
constexpr RopeDefaults kRopeDefaults = {10000, 0.25};

/// The class reads its own names only.
Json usual_config(const Json& config) {
  Json own = config;
  for (const char* usual : {"partial_rotary_factor", "rope_theta"}) own.erase(usual);
  return with_usual_keys(own, {{"rotary_pct", "partial_rotary_factor"}, {"rotary_emb_base", "rope_theta"}});
}

DecoderDims read_dims(const Json& config) {
  DecoderDefaults defaults = kDefaults;
  defaults.act = read_activation(config, defaults.act_key, defaults.act);
  return read_decoder_dims(config, defaults);
}

class GptNeoX final : public LayerNormModel {
 public:
  explicit GptNeoX(const Json& config) : LayerNormModel(config, read_dims(config)) {
    rope_ = read_rope(config, dims_.head_dim, kRopeDefaults);
    act_ = read_activation(config, kDefaults.act_key, kDefaults.act);
    bias_ = read_bias(config, "attention_bias", true);
    parallel_ = get_bool_or(config, "use_parallel_residual", true);
    spec_.default_prefix = "gpt_neox.";
    spec_.embedding = "embed_in.weight";
    spec_.final_norm = "final_layer_norm.weight";
    spec_.head = "embed_out.weight";
    for (int64_t i = 0; i < dims_.n_layers; ++i) {
      add_layer(rope_, "attention");
      spec_.layers.back().copies = 3 * dims_.hidden * dims_.hidden;
      spec_.layers.back().attention.obstacle = "its queries, keys and values are one weight, head by head";
    }
  }

 private:
  std::unique_ptr<Block> load_layer(const KvLayout& cache, WeightLoader& loader, WeightBinder w) const override {
    const DecoderDims& d = dims_;
    for (const char* mask : {"attention.bias", "attention.masked_bias"}) w.claim(mask);  // of older files: constants
    NormedWeights weights = {
        load_layer_norm(loader, w, "input_layernorm", d.hidden, d.eps),
        load_layer_norm(loader, w, "post_attention_layernorm", d.hidden, d.eps),
        load_grouped_qkv(loader, w, "attention.query_key_value", d, bias_),
        load_output_projection(loader, w, "attention.dense", d.hidden, {d.n_heads, d.head_dim}, bias_),
        loader.load_mlp(projection(w, "mlp.dense_h_to_4h", d.ffn, d.hidden, Bias::Present),
                        projection(w, "mlp.dense_4h_to_h", d.hidden, d.ffn, Bias::Present), act_)};
    return make_normed_block(cache, rope_, std::move(weights), parallel_);
  }

  RopeSpec rope_;
  Activation act_ = Activation::Gelu;
  Bias bias_ = Bias::Present;
  bool parallel_ = true;
};

}  // namespace

std::unique_ptr<Model> parse_gpt_neox(const Json& config) { return std::make_unique<GptNeoX>(usual_config(config)); }

}  // namespace kvcal
