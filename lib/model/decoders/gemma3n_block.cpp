#include "model/decoders/gemma3n_block.h"

#include "base/portable_math.h"
#include "model/layers/gemma_parts.h"
#include "model/layers/layer_embedding.h"
#include "model/layers/sharing_attention.h"

namespace kvcal {
namespace {

constexpr Activation kAct = Activation::GeluTanh;
constexpr float kRootOfHalf = 0.70710678f;

SharingAttentionShape attention_shape(const Gemma3nConfig& c, const Gemma3nLayer& l) {
  return {.hidden = c.dims.hidden,
          .n_heads = c.dims.n_heads,
          .n_kv_heads = c.dims.n_kv_heads,
          .head_dim = c.dims.head_dim,
          .eps = c.dims.eps,
          .bias = c.bias,
          .owns = l.owner == l.index,
          .shared = l.shared};
}

LayerEmbeddingShape embedding_shape(const Gemma3nConfig& c, float sum_factor) {
  return {c.dims.hidden, c.dims.vocab, c.dims.n_layers, c.per_layer_dim, c.per_layer_vocab, c.dims.eps, sum_factor, {}};
}

/// A feed-forward of whose gates those stay that lie so far above their mean.
class SparseMlp {
 public:
  SparseMlp(WeightLoader& loader, WeightBinder w, int64_t hidden, const Gemma3nLayer& layer)
      : w_(load_glu(loader, w, {hidden, layer.ffn, Bias::None, kAct})),
        sparse_(layer.sparsity > 0),
        deviations_(sparse_ ? static_cast<float>(normal_quantile(double{layer.sparsity})) : 0) {}

  Tensor forward(Ops& op, const Tensor& x) const {
    if (!sparse_) return op.glu_mlp(x, w_);
    const Tensor gate = op.keep_above(op.linear(x, w_.gate), deviations_);
    return op.linear(op.glu(gate, op.linear(x, w_.up), kAct), w_.down);
  }

 private:
  GluWeights w_;  // [ffn, hidden], [ffn, hidden], [hidden, ffn]
  bool sparse_;
  float deviations_;
};

class Gemma3nBlock final : public Block {
 public:
  Gemma3nBlock(const Gemma3nConfig& c, const Gemma3nLayer& layer, const KvLayout& layout, WeightLoader& loader,
               WeightBinder& model, WeightBinder w)
      : eps_(c.dims.eps),
        alt_up_(c.streams, loader, w.at("altup.")),
        attention_(attention_shape(c, layer), layout, layer.full ? c.full_rope : c.sliding_rope, loader, w),
        mlp_(loader, w.at("mlp."), c.dims.hidden, layer),
        embedding_(embedding_shape(c, in_activation_type(loader, kRootOfHalf)), layer.index, loader, model, w),
        left_(load_projection(loader, w, "laurel.linear_left", c.laurel_rank, c.dims.hidden)),
        right_(load_projection(loader, w, "laurel.linear_right", c.dims.hidden, c.laurel_rank)),
        laurel_norm_(load_f32_gain(loader, w, "laurel.post_laurel_norm", c.dims.hidden)),
        attn_norm_(load_f32_gain(loader, w, "input_layernorm", c.dims.hidden)),
        attn_out_norm_(load_f32_gain(loader, w, "post_attention_layernorm", c.dims.hidden)),
        ffn_norm_(load_f32_gain(loader, w, "pre_feedforward_layernorm", c.dims.hidden)),
        ffn_out_norm_(load_f32_gain(loader, w, "post_feedforward_layernorm", c.dims.hidden)) {
    const Tensor scale = w("altup.correct_output_scale", {c.dims.hidden});
    if (c.scales_corrected) scale_ = loader.load_gain(scale, Gain::Plain);
  }

  Tensor forward(Ops& op, const Tensor& x, const Batch& batch, LayerStates& states, KvTap& tap, Tail tail) override {
    const Tensor predicted = alt_up_.predict(op, x);
    const Tensor active = alt_up_.active(op, predicted), normed = op.rms_norm(active, attn_norm_, eps_);
    const Tensor mixed = attention_.forward(op, normed, batch, states, tap, tail);
    if (tail == Tail::Skip) return x;
    const Tensor attended = op.add(active, op.rms_norm(mixed, attn_out_norm_, eps_));
    const Tensor y = op.scale(op.add(attended, laurel(op, normed)), kRootOfHalf);
    const Tensor z = mlp_.forward(op, op.rms_norm(y, ffn_norm_, eps_));
    const Tensor corrected = alt_up_.correct(op, predicted, op.add(y, op.rms_norm(z, ffn_out_norm_, eps_)));
    Tensor gating = alt_up_.active(op, corrected);
    if (scale_) gating = op.mul(gating, repeated(op, scale_, batch.n_tokens()));
    return alt_up_.add_to_others(op, corrected, embedding_.forward(op, gating, batch));
  }

 private:
  /// h [tokens, hidden] plus the normed product of two narrow projections of it.
  Tensor laurel(Ops& op, const Tensor& h) const {
    return op.add(h, op.rms_norm(op.linear(op.linear(h, left_), right_), laurel_norm_, eps_));
  }

  float eps_;
  AltUp alt_up_;
  SharingAttention attention_;
  SparseMlp mlp_;
  LayerEmbedding embedding_;
  Linear left_, right_;                                                      // [rank, hidden], [hidden, rank]
  Owned laurel_norm_, attn_norm_, attn_out_norm_, ffn_norm_, ffn_out_norm_;  // [hidden]
  Owned scale_;                                                              // [hidden], or absent
};

}  // namespace

int64_t gemma3n_extra_activations(const Gemma3nConfig& c, const Gemma3nLayer& layer) {
  // Norms of what the branches add, the low-rank branch, a sum and its factor, what gates the embedding by layer; the
  // gates that stay; that embedding.
  return AltUp::activations(c.streams) + 14 * c.dims.hidden + c.laurel_rank + (layer.sparsity > 0 ? layer.ffn : 0) +
         9 * c.per_layer_dim;
}

std::unique_ptr<Block> load_gemma3n_block(const Gemma3nConfig& c, const Gemma3nLayer& layer, const KvLayout& layout,
                                          WeightLoader& loader, WeightBinder& weights) {
  return std::make_unique<Gemma3nBlock>(c, layer, layout, loader, weights,
                                        weights.at("layers." + std::to_string(layer.index) + "."));
}

}  // namespace kvcal
