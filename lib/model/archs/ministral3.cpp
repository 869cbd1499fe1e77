// Ministral3ForCausalLM, and MistralForCausalLM with llama_4_scaling: Mistral whose queries are multiplied, after RoPE,
// by 1 + beta ln(1 + ⌊position / original⌋) (query_growth.h).
#include "model/archs/archs.h"
#include "model/plain_decoder.h"
#include "model/query_growth.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 131072,
                                       .hidden = 4096,
                                       .ffn = 14336,
                                       .n_layers = 34,
                                       .n_heads = 32,
                                       .n_kv_heads = 8,
                                       .head_dim = 128,
                                       .max_positions = 262144,
                                       .eps = 1e-5};

struct Ministral3Block final : Block {
  const KvLayout& s;
  const RopeSpec& rope;
  QueryGrowth growth;
  float eps;
  DecoderWeights w;

  Ministral3Block(const KvLayout& layout, const RopeSpec& r, const QueryGrowth& g, float e, DecoderWeights weights)
      : s(layout), rope(r), growth(g), eps(e), w(std::move(weights)) {}

  Tensor forward(Ops& op, const Tensor& x, const Batch& batch, LayerStates& states, KvTap& tap, Tail tail) override {
    const Tensor turns = op.rope_table(batch.positions, batch.n_tokens(), rope);
    const HeadsPart parts[] = {{s.head_dim_k, {}, true}, {s.head_dim_k, {}, true}, {s.head_dim_v, {}, false}};
    auto heads = op.project_heads(op.rms_norm(x, w.attn_norm, eps), w.qkv, {parts, eps, turns, rope});
    heads[0] = grown(op, heads[0], growth, batch);
    const Tensor o = attend(op, s, heads, w.wo, batch, states, tap, tail);
    if (!o) return x;
    const auto [y, normed] = op.add_rms_norm(x, op.linear(o, w.wo), w.ffn_norm, eps);
    return op.add(y, op.glu_mlp(normed, w.mlp));
  }
};

// What the reference class assumes for a config without rope keys.
Json with_default_rope(const Json& text) {
  Json out = text;
  if (!find_member(text, "rope_parameters") && !find_member(text, "rope_scaling"))
    out["rope_parameters"] = {{"rope_type", "yarn"},
                              {"rope_theta", 1e6},
                              {"factor", 16.0},
                              {"original_max_position_embeddings", 16384},
                              {"mscale", 1.0},
                              {"mscale_all_dim", 1.0},
                              {"llama_4_scaling_beta", 0.1}};
  return out;
}

class Ministral3 final : public AttentionModel {
 public:
  explicit Ministral3(const Json& config) : AttentionModel(config, read_decoder_dims(config, kDefaults)) {
    const Json text = with_default_rope(text_config(config));
    if (find_member(text, "layer_types"))
      fail("layer_types in a Ministral3 config: the reference class ignores them; use the Ministral class");
    rope_ = read_rope(text, dims_.head_dim, {});
    growth_ = read_query_growth(text);
    for (const int64_t window : read_windows(text, dims_.n_layers, 0)) add_attention_layer(spec_, dims_, rope_, window);
    for (LayerSpec& layer : spec_.layers) layer.activations += dims_.n_heads * dims_.head_dim + 2;
  }

 private:
  std::unique_ptr<Block> load_layer(const KvLayout& cache, WeightLoader& loader, WeightBinder w) const override {
    return std::make_unique<Ministral3Block>(cache, rope_, growth_, dims_.eps,
                                             load_decoder_weights(dims_, {}, loader, w));
  }

  RopeSpec rope_;
  QueryGrowth growth_;
};

}  // namespace

std::unique_ptr<Model> parse_ministral3(const Json& config) { return std::make_unique<Ministral3>(config); }

}  // namespace kvcal
