// GPT2LMHeadModel (GPT-2 and its many small descendants): a learned row for every position instead of RoPE, layer norms
// and biases everywhere, and weights that are stored transposed (Conv1D): q, k and v as columns of one.
#include "model/archs/archs.h"
#include "model/decoders/layer_norm_decoder.h"
#include "model/layers/learned_positions.h"
#include "model/layers/weight_rows.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 50257,
                                       .hidden = 768,
                                       .ffn = 0,  // 4 hidden
                                       .n_layers = 12,
                                       .n_heads = 12,
                                       .max_positions = 1024,
                                       .tied_head = true,
                                       .act = Activation::GeluTanh,
                                       .act_key = "activation_function",
                                       .eps_key = "layer_norm_epsilon",
                                       .eps = 1e-5};

Json usual_config(const Json& config) {
  return with_usual_keys(config, {{"n_embd", "hidden_size"},
                                  {"n_head", "num_attention_heads"},
                                  {"n_inner", "intermediate_size"},
                                  {"n_layer", "num_hidden_layers"},
                                  {"n_positions", "max_position_embeddings"}});
}

DecoderDims read_dims(const Json& config) {
  DecoderDefaults defaults = kDefaults;
  defaults.ffn = 4 * read_size(config, "hidden_size", kDefaults.hidden);
  defaults.act = read_activation(config, defaults.act_key, defaults.act);
  return read_decoder_dims(config, defaults);
}

/// "NAME.weight" [in, out] and "NAME.bias" [out] as what other families store.
struct TransposedLinear {
  Storage weight;  // [out, in]
  HostLinear linear;

  TransposedLinear(WeightBinder& w, const std::string& name, int64_t out, int64_t in)
      : weight(transposed(w(name + ".weight", {in, out}))),
        linear{weight.tensor(), w(name + ".bias", {out}), w.inputs_of(name + ".weight")} {}
};

class Gpt2 final : public LayerNormModel {
 public:
  explicit Gpt2(const Json& config) : LayerNormModel(config, read_dims(config)) {
    if (get_bool_or(config, "add_cross_attention", false))
      fail("add_cross_attention is true: the decoder also reads an encoder's output");
    act_ = read_activation(config, kDefaults.act_key, kDefaults.act);
    spec_.default_prefix = "transformer.";
    spec_.layer_prefix = "h.";
    spec_.embedding = "wte.weight";
    spec_.final_norm = "ln_f.weight";
    spec_.table_parameters += dims_.max_positions * dims_.hidden;
    add_layers(get_bool_or(config, "scale_attn_weights", true),
               get_bool_or(config, "scale_attn_by_inverse_layer_idx", false));
  }

  std::unique_ptr<Embedding> load_embedding(WeightLoader&, WeightBinder& weights) const override {
    return load_positioned_embedding(spec_, {"wpe.weight", dims_.max_positions}, weights);
  }

 private:
  void add_layers(bool by_width, bool by_layer) {
    for (int64_t i = 0; i < dims_.n_layers; ++i) {
      KvLayout& cache = add_layer({}, "attn");
      if (!by_width) cache.softmax_scale = 1;
      if (by_layer) cache.softmax_scale /= static_cast<double>(i + 1);
      LayerSpec& layer = spec_.layers.back();
      layer.copies = 4 * dims_.hidden * dims_.hidden + 2 * dims_.hidden * dims_.ffn;
      layer.attention.obstacle = "its weights are stored transposed";
    }
  }

  std::unique_ptr<Block> load_layer(const KvLayout& cache, WeightLoader& loader, WeightBinder w) const override {
    const DecoderDims& d = dims_;
    for (const char* mask : {"attn.bias", "attn.masked_bias"}) w.claim(mask);  // of older files: constants
    const TransposedLinear qkv(w, "attn.c_attn", 3 * d.hidden, d.hidden), o(w, "attn.c_proj", d.hidden, d.hidden),
        up(w, "mlp.c_fc", d.ffn, d.hidden), down(w, "mlp.c_proj", d.hidden, d.ffn);
    const HostLinear parts[] = {qkv.linear.rows(0, d.hidden), qkv.linear.rows(d.hidden, d.hidden),
                                qkv.linear.rows(2 * d.hidden, d.hidden)};
    Linear wo = loader.load_linear(o.linear.weight, o.linear.bias, o.linear.input);
    wo.column_norms = loader.load_column_norms(o.linear.weight, {}, d.n_heads);
    NormedWeights weights = {load_layer_norm(loader, w, "ln_1", d.hidden, d.eps),
                             load_layer_norm(loader, w, "ln_2", d.hidden, d.eps), loader.load_linears(parts),
                             std::move(wo), loader.load_mlp(up.linear, down.linear, act_)};
    return make_normed_block(cache, rope_, std::move(weights));
  }

  RopeSpec rope_;  // of no dimension
  Activation act_ = Activation::GeluTanh;
};

}  // namespace

std::unique_ptr<Model> parse_gpt2(const Json& config) { return std::make_unique<Gpt2>(usual_config(config)); }

}  // namespace kvcal
