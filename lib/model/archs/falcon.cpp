// FalconForCausalLM (Falcon 7B, 40B, 180B and Falcon 2): layer norms, RoPE, q, k and v in one weight by groups of
// heads. The newer form (new_decoder_architecture) has several key heads and a norm for each of its parallel branches;
// the older one has one key head (multi_query) or as many as queries. Biases only with `bias`. ALiBi (Falcon-RW) is
// refused.
#include "model/archs/archs.h"
#include "model/decoders/layer_norm_decoder.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 65024,
                                       .hidden = 4544,
                                       .ffn = 0,  // 4 hidden
                                       .n_layers = 32,
                                       .n_heads = 71,
                                       .max_positions = 2048,
                                       .tied_head = true,
                                       .act = Activation::Gelu,
                                       .act_key = "activation",
                                       .eps_key = "layer_norm_epsilon",
                                       .eps = 1e-5};

/// The number of key heads is num_kv_heads in the newer form only; older files have a number there that means nothing.
Json usual_config(const Json& config) {
  Json out = with_usual_keys(config, {{"n_embed", "hidden_size"},
                                      {"n_head", "num_attention_heads"},
                                      {"n_layer", "num_hidden_layers"},
                                      {"ffn_hidden_size", "intermediate_size"}});
  const int64_t heads = read_size(out, "num_attention_heads", kDefaults.n_heads);
  const bool newer = get_bool_or(out, "new_decoder_architecture", false),
             one = !newer && get_bool_or(out, "multi_query", true);
  out["num_key_value_heads"] = one ? 1 : newer ? read_size(out, "num_kv_heads", heads) : heads;
  return out;
}

DecoderDims read_dims(const Json& config) {
  DecoderDefaults defaults = kDefaults;
  defaults.ffn = 4 * read_size(config, "hidden_size", kDefaults.hidden);
  defaults.act = read_activation(config, defaults.act_key, defaults.act);
  return read_decoder_dims(config, defaults);
}

/// Which norms a layer has.
enum class Norms : uint8_t { InTurn, OneForBoth, OneForEach };

Norms read_norms(const Json& config) {
  const bool newer = get_bool_or(config, "new_decoder_architecture", false);
  const int64_t given = get_int_or(config, "num_ln_in_parallel_attn", newer ? 2 : 1);
  if (given != 1 && given != 2) fail("num_ln_in_parallel_attn is " + std::to_string(given) + ", expected 1 or 2");
  if (newer) return given == 2 ? Norms::OneForEach : Norms::OneForBoth;
  if (given == 2) fail("num_ln_in_parallel_attn is 2 without new_decoder_architecture, which is not supported");
  return get_bool_or(config, "parallel_attn", true) ? Norms::OneForBoth : Norms::InTurn;
}

class Falcon final : public LayerNormModel {
 public:
  explicit Falcon(const Json& config) : LayerNormModel(config, read_dims(config)), norms_(read_norms(config)) {
    if (get_bool_or(config, "alibi", false)) fail("alibi (a bias of attention by distance) is not supported");
    rope_ = read_rope(config, dims_.head_dim, {});
    act_ = read_activation(config, kDefaults.act_key, kDefaults.act);
    bias_ = read_bias(config, "bias");
    spec_.default_prefix = "transformer.";
    spec_.layer_prefix = "h.";
    spec_.embedding = "word_embeddings.weight";
    spec_.final_norm = "ln_f.weight";
    for (int64_t i = 0; i < dims_.n_layers; ++i) {
      add_layer(rope_, "self_attention");
      spec_.layers.back().copies = (dims_.n_heads + 2 * dims_.n_kv_heads) * dims_.head_dim * dims_.hidden;
      spec_.layers.back().attention.obstacle = "its queries, keys and values are one weight, group by group";
    }
  }

 private:
  std::unique_ptr<Block> load_layer(const KvLayout& cache, WeightLoader& loader, WeightBinder w) const override {
    const DecoderDims& d = dims_;
    const bool each = norms_ == Norms::OneForEach;
    NormedWeights weights = {
        load_layer_norm(loader, w, each ? "ln_attn" : "input_layernorm", d.hidden, d.eps), std::nullopt,
        load_grouped_qkv(loader, w, "self_attention.query_key_value", d, bias_),
        load_output_projection(loader, w, "self_attention.dense", d.hidden, {d.n_heads, d.head_dim}, bias_),
        loader.load_mlp(projection(w, "mlp.dense_h_to_4h", d.ffn, d.hidden, bias_),
                        projection(w, "mlp.dense_4h_to_h", d.hidden, d.ffn, bias_), act_)};
    if (norms_ != Norms::OneForBoth)
      weights.ffn_norm = load_layer_norm(loader, w, each ? "ln_mlp" : "post_attention_layernorm", d.hidden, d.eps);
    return make_normed_block(cache, rope_, std::move(weights), norms_ != Norms::InTurn);
  }

  Norms norms_;
  RopeSpec rope_;
  Activation act_ = Activation::Gelu;
  Bias bias_ = Bias::None;
};

}  // namespace

std::unique_ptr<Model> parse_falcon(const Json& config) { return std::make_unique<Falcon>(usual_config(config)); }

}  // namespace kvcal
