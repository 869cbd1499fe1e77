// OPTForCausalLM (OPT, Galactica): a learned row for every position, two rows later than it says; layer norms, of which
// no config names the epsilon. OPT-350m, which norms behind its branches and embeds in another width, is refused.
#include "model/archs/archs.h"
#include "model/decoders/layer_norm_decoder.h"
#include "model/layers/learned_positions.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 50272,
                                       .hidden = 768,
                                       .ffn = 3072,
                                       .n_layers = 12,
                                       .n_heads = 12,
                                       .max_positions = 2048,
                                       .tied_head = true,
                                       .act = Activation::Relu,
                                       .act_key = "activation_function"};
constexpr float kEps = 1e-5f;
constexpr int64_t kFirstRow = 2;

Json usual_config(const Json& config) { return with_usual_keys(config, {{"ffn_dim", "intermediate_size"}}); }

DecoderDims read_dims(const Json& config) {
  DecoderDefaults defaults = kDefaults;
  defaults.act = read_activation(config, defaults.act_key, defaults.act);
  DecoderDims dims = read_decoder_dims(config, defaults);
  dims.eps = kEps;
  return dims;
}

class Opt final : public LayerNormModel {
 public:
  explicit Opt(const Json& config) : LayerNormModel(config, read_dims(config)) {
    if (!get_bool_or(config, "do_layer_norm_before", true) || get_bool_or(config, "_remove_final_layer_norm", false))
      fail(
          "do_layer_norm_before is false, or _remove_final_layer_norm true: OPT is read with norms before each branch");
    if (get_int_or(config, "word_embed_proj_dim", dims_.hidden) != dims_.hidden)
      fail("word_embed_proj_dim differs from hidden_size: projected embeddings (OPT-350m) are not supported");
    act_ = read_activation(config, kDefaults.act_key, kDefaults.act);
    bias_ = read_bias(config, "enable_bias", true);
    affine_ = get_bool_or(config, "layer_norm_elementwise_affine", true);
    spec_.default_prefix = "model.decoder.";
    spec_.final_norm = "final_layer_norm.weight";
    spec_.table_parameters = (dims_.max_positions + kFirstRow + (affine_ ? 1 : -1)) * dims_.hidden;
    for (int64_t i = 0; i < dims_.n_layers; ++i) {
      add_layer({}, "self_attn");
      spec_.layers.back().attention.output = "out_proj";
    }
  }

  std::unique_ptr<Embedding> load_embedding(WeightLoader&, WeightBinder& weights) const override {
    return load_positioned_embedding(spec_, {"embed_positions.weight", dims_.max_positions + kFirstRow, kFirstRow},
                                     weights);
  }

  std::unique_ptr<Head> load_head(WeightLoader& loader, WeightBinder& weights, WeightBinder& head) const override {
    return load_output_head(spec_, load_norm(loader, weights, "final_layer_norm"), {}, loader, weights, head);
  }

 private:
  std::unique_ptr<Block> load_layer(const KvLayout& cache, WeightLoader& loader, WeightBinder w) const override {
    const DecoderDims& d = dims_;
    NormedWeights weights = {
        load_norm(loader, w, "self_attn_layer_norm"), load_norm(loader, w, "final_layer_norm"),
        load_qkv(loader, w, d, bias_),
        load_output_projection(loader, w, "self_attn.out_proj", d.hidden, {d.n_heads, d.head_dim}, bias_),
        loader.load_mlp(projection(w, "fc1", d.ffn, d.hidden, bias_), projection(w, "fc2", d.hidden, d.ffn, bias_),
                        act_)};
    return make_normed_block(cache, rope_, std::move(weights));
  }

  Norm load_norm(WeightLoader& loader, WeightBinder& w, const std::string& name) const override {
    return affine_ ? load_layer_norm(loader, w, name, dims_.hidden, kEps) : Norm{Norm::Kind::Layer, kEps, {}, {}};
  }

  RopeSpec rope_;  // of no dimension
  Activation act_ = Activation::Relu;
  Bias bias_ = Bias::Present;
  bool affine_ = true;
};

}  // namespace

std::unique_ptr<Model> parse_opt(const Json& config) { return std::make_unique<Opt>(usual_config(config)); }

}  // namespace kvcal
