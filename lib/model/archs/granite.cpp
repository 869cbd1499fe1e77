// GraniteForCausalLM: Granite 3 dense. Llama with four multipliers: of the embeddings, of the logits q·k (in place of
// D^-1/2), of both branches before they join the residual stream, and a divisor of the output logits.
#include "model/archs/archs.h"
#include "model/multipliers.h"
#include "model/plain_decoder.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {32000, 4096, 11008, 32, 32, 0, 0, 2048};

struct GraniteBlock final : Block {
  const KvLayout& s;
  const RopeSpec& rope;
  float eps, residual;
  DecoderWeights w;

  GraniteBlock(const KvLayout& layout, const RopeSpec& r, float e, float multiplier, DecoderWeights weights)
      : s(layout), rope(r), eps(e), residual(multiplier), w(std::move(weights)) {}

  Tensor forward(Ops& op, const Tensor& x, const Batch& batch, LayerStates& states, KvTap& tap, Tail tail) override {
    const Tensor turns = op.rope_table(batch.positions, batch.n_tokens(), rope);
    const HeadsPart parts[] = {{s.head_dim_k, {}, true}, {s.head_dim_k, {}, true}, {s.head_dim_v, {}, false}};
    const auto heads = op.project_heads(op.rms_norm(x, w.attn_norm, eps), w.qkv, {parts, eps, turns, rope});
    const Tensor o = attend(op, s, heads, w.wo, batch, states, tap, tail);
    if (!o) return x;
    const auto [y, normed] = op.add_rms_norm(x, op.scale(op.linear(o, w.wo), residual), w.ffn_norm, eps);
    return op.add(y, op.scale(op.glu_mlp(normed, w.mlp), residual));
  }
};

class Granite final : public AttentionModel {
 public:
  explicit Granite(const Json& config) : AttentionModel(config, read_decoder_dims(config, kDefaults)) {
    const Json& text = text_config(config);
    if (find_member(text, "layer_rope_theta") || get_bool_or(text, "attention_sinks", false))
      fail("layer_rope_theta and attention_sinks are of GraniteSWAForCausalLM, which is not read");
    rope_ = read_rope(text, dims_.head_dim, {});
    const Bias attention = get_bool_or(text, "attention_bias", false) ? Bias::Present : Bias::None;
    biases_ = {attention, attention, get_bool_or(text, "mlp_bias", false) ? Bias::Present : Bias::None};
    const Multipliers multipliers = read_multipliers(text);
    embedding_factor_ = multipliers.embedding;
    residual_ = multipliers.residual;
    logits_.factor = multipliers.logits;
    for (int64_t i = 0; i < dims_.n_layers; ++i)
      add_attention_layer(spec_, dims_, rope_, 0).softmax_scale = multipliers.attention;
    for (LayerSpec& layer : spec_.layers) layer.activations += 2 * dims_.hidden;  // the scaled branches
  }

 private:
  std::unique_ptr<Block> load_layer(const KvLayout& cache, WeightLoader& loader, WeightBinder w) const override {
    return std::make_unique<GraniteBlock>(cache, rope_, dims_.eps, residual_,
                                          load_decoder_weights(dims_, biases_, loader, w));
  }

  RopeSpec rope_;
  DecoderBiases biases_;
  float residual_ = 1;
};

}  // namespace

std::unique_ptr<Model> parse_granite(const Json& config) { return std::make_unique<Granite>(config); }

}  // namespace kvcal
