#include "model/decoders/gemma4_block.h"

#include <cmath>

#include "model/layers/gemma_parts.h"
#include "model/layers/layer_embedding.h"
#include "model/layers/sharing_attention.h"

namespace kvcal {
namespace {

constexpr Activation kAct = Activation::GeluTanh;

SharingAttentionShape attention_shape(const Gemma4Config& c, const Gemma4Layer& l) {
  return {.hidden = c.dims.hidden,
          .n_heads = c.dims.n_heads,
          .n_kv_heads = l.n_kv_heads,
          .head_dim = l.head_dim,
          .eps = c.dims.eps,
          .bias = c.bias,
          .cap = c.attention_cap,
          .owns = l.owner == l.index,
          .shared = l.shared,
          .keys_as_values = l.keys_as_values,
          .images_seen_whole = !l.full};
}

LayerEmbeddingShape embedding_shape(const Gemma4Config& c) {
  return {c.dims.hidden,     c.dims.vocab, c.dims.n_layers, c.per_layer_dim,
          c.per_layer_vocab, c.dims.eps,   std::sqrt(0.5f), c.pad};
}

/// Experts beside the dense feed-forward, with a router that sees the stream before its norm.
class Mixture {
 public:
  Mixture(const Gemma4Config& c, WeightLoader& loader, WeightBinder& w)
      : eps_(c.dims.eps),
        routing_(c.moe->routing),
        input_factor_(1 / std::sqrt(static_cast<float>(c.dims.hidden))),
        router_gain_(loader.load_gain(w("router.scale", {c.dims.hidden}), Gain::Plain)),
        dense_norm_(load_f32_gain(loader, w, "post_feedforward_layernorm_1", c.dims.hidden)),
        in_norm_(load_f32_gain(loader, w, "pre_feedforward_layernorm_2", c.dims.hidden)),
        out_norm_(load_f32_gain(loader, w, "post_feedforward_layernorm_2", c.dims.hidden)),
        scales_(static_cast<size_t>(c.moe->n_experts)) {
    MoeNames names;
    names.router = "router.proj";
    if (w.has("moe.experts.0.down_proj.weight")) names.experts = "moe.experts.";
    parts_ = load_moe(*c.moe, names, loader, w);
    const Tensor stored = w("router.per_expert_scale", {c.moe->n_experts});
    convert_to_float(stored.dtype, stored.data, scales_.data(), scales_.size());
  }

  /// x [tokens, hidden]: the stream; dense: what the feed-forward made of it.
  Tensor forward(Ops& op, const Tensor& x, const Tensor& dense) const {
    const Tensor seen = op.scale(op.rms_norm(x, router_gain_, eps_), input_factor_);
    const Routing routing = scaled(op, op.route(op.linear(seen, parts_.router), routing_));
    const Tensor mixed = op.experts(op.rms_norm(x, in_norm_, eps_), routing, parts_.experts);
    return op.add(op.rms_norm(dense, dense_norm_, eps_), op.rms_norm(mixed, out_norm_, eps_));
  }

 private:
  /// Every expert's weight times its own scale: on the host, as no device has more to do than wait for it.
  Routing scaled(Ops& op, const Routing& routing) const {
    const Storage experts(routing.experts.shape, DType::I32), weights(routing.weights.shape, DType::F32);
    op.download(routing.experts, experts.tensor());
    op.download(routing.weights, weights.tensor());
    for (int64_t i = 0; i < routing.experts.elements(); ++i)
      weights.tensor().as<float>()[i] *= scales_[static_cast<size_t>(experts.tensor().as<int32_t>()[i])];
    return {routing.experts, op.upload(weights.tensor())};
  }

  float eps_;
  RoutingSpec routing_;
  float input_factor_;
  Owned router_gain_, dense_norm_, in_norm_, out_norm_;  // [hidden]
  std::vector<float> scales_;                            // [n_experts]
  MoeParts parts_;
};

class Gemma4Block final : public Block {
 public:
  Gemma4Block(const Gemma4Config& c, const Gemma4Layer& layer, const KvLayout& layout, WeightLoader& loader,
              WeightBinder& model, WeightBinder w)
      : eps_(c.dims.eps),
        attention_(attention_shape(c, layer), layout, layer.full ? c.full_rope : c.sliding_rope, loader, w),
        mlp_(loader, w.at("mlp."), c.dims.hidden, layer.ffn, Bias::None, kAct),
        attn_norm_(load_f32_gain(loader, w, "input_layernorm", c.dims.hidden)),
        attn_out_norm_(load_f32_gain(loader, w, "post_attention_layernorm", c.dims.hidden)),
        ffn_norm_(load_f32_gain(loader, w, "pre_feedforward_layernorm", c.dims.hidden)),
        ffn_out_norm_(load_f32_gain(loader, w, "post_feedforward_layernorm", c.dims.hidden)) {
    if (c.moe) mixture_.emplace(c, loader, w);
    if (c.per_layer_dim > 0) embedding_.emplace(embedding_shape(c), layer.index, loader, model, w);
    if (const Tensor factor = w.optional("layer_scalar", {1})) factor_ = first_value(factor);
  }

  Tensor forward(Ops& op, const Tensor& x, const Batch& batch, LayerStates& states, KvTap& tap, Tail tail) override {
    const Tensor mixed = attention_.forward(op, op.rms_norm(x, attn_norm_, eps_), batch, states, tap, tail);
    if (tail == Tail::Skip) return x;
    const auto [y, normed] = op.add_rms_norm(x, op.rms_norm(mixed, attn_out_norm_, eps_), ffn_norm_, eps_);
    Tensor z = mlp_.forward(op, normed);
    if (mixture_) z = mixture_->forward(op, y, z);
    Tensor out = op.add(y, op.rms_norm(z, ffn_out_norm_, eps_));
    if (embedding_) out = op.add(out, embedding_->forward(op, out, batch));
    return factor_ == 1 ? out : op.scale(out, factor_);
  }

 private:
  float eps_;
  SharingAttention attention_;
  GluMlp mlp_;
  Owned attn_norm_, attn_out_norm_, ffn_norm_, ffn_out_norm_;  // [hidden]
  std::optional<Mixture> mixture_;
  std::optional<LayerEmbedding> embedding_;
  float factor_ = 1;  // of the whole stream
};

}  // namespace

int64_t gemma4_extra_activations(const Gemma4Config& c) {
  // Norms of what the branches add; the stream times a factor; for experts what they allocate, with their norms.
  int64_t n = 4 * c.dims.hidden;
  if (c.per_layer_dim > 0) n += 7 * c.dims.hidden + 9 * c.per_layer_dim;
  if (!c.moe) return n;
  LayerSpec counted;
  count_moe_layer(counted, *c.moe, 0);
  return n + counted.activations + 6 * c.dims.hidden + 2 * c.moe->routing.k;
}

std::unique_ptr<Block> load_gemma4_block(const Gemma4Config& c, const Gemma4Layer& layer, const KvLayout& layout,
                                         WeightLoader& loader, WeightBinder& weights) {
  return std::make_unique<Gemma4Block>(c, layer, layout, loader, weights,
                                       weights.at("layers." + std::to_string(layer.index) + "."));
}

}  // namespace kvcal
