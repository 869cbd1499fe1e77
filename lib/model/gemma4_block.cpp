#include "model/gemma4_block.h"

#include <cmath>

#include "model/gemma_parts.h"

namespace kvcal {
namespace {

constexpr Activation kAct = Activation::GeluTanh;

class Attention {
 public:
  Attention(const Gemma4Config& c, const Gemma4Layer& layer, const KvLayout& layout, WeightLoader& loader,
            WeightBinder& w)
      : c_(c), layer_(layer), s_(layout), rope_(layer.full ? c.full_rope : c.sliding_rope) {
    const int64_t hidden = c.dims.hidden, q = c.dims.n_heads * layer.head_dim, kv = layer.n_kv_heads * layer.head_dim;
    std::vector<HostLinear> parts = {projection(w, "self_attn.q_proj", q, hidden, c.bias)};
    q_norm_ = load_f32_gain(loader, w, "self_attn.q_norm", layer.head_dim);
    if (owns()) {
      parts.push_back(projection(w, "self_attn.k_proj", kv, hidden, c.bias));
      if (!layer.keys_as_values) parts.push_back(projection(w, "self_attn.v_proj", kv, hidden, c.bias));
      k_norm_ = load_f32_gain(loader, w, "self_attn.k_norm", layer.head_dim);
    } else {  // older saves keep projections that nobody uses
      for (const char* name : {"k_proj.weight", "v_proj.weight", "k_norm.weight", "k_proj.bias", "v_proj.bias"})
        if (w.has(std::string("self_attn.") + name)) w.claim(std::string("self_attn.") + name);
    }
    qkv_ = loader.load_linears(parts);
    wo_ = load_output_projection(loader, w, "self_attn.o_proj", hidden, {c.dims.n_heads, layer.head_dim}, c.bias,
                                 OutputTo::Norm);
  }

  /// h [tokens, hidden] (normed) -> the branch's output, or h itself after the taps with Tail::Skip.
  Tensor forward(Ops& op, const Tensor& h, const Batch& batch, LayerStates& states, KvTap& tap, Tail tail) const {
    AttentionSpec spec{static_cast<float>(s_.softmax_scale), s_.window, c_.attention_cap};
    if (!layer_.full) spec.last_keys = batch.last_keys;  // full layers are causal
    const Tensor turns = op.rope_table(batch.positions, batch.n_tokens(), rope_);
    const int64_t dim = layer_.head_dim;
    if (!owns()) {
      const HeadsPart parts[] = {{dim, q_norm_, true}};
      const Tensor q = tap.query(s_.cache, op.project_heads(h, qkv_, {parts, c_.dims.eps, turns, rope_})[0], batch);
      const std::vector<const KvRows*> rows = states.owner_rows(batch);
      if (tap.samples()) tap.attention(op, s_.cache, {q, {}, {}, rows, spec, *wo_.column_norms}, batch);
      if (tail == Tail::Skip) return h;
      return op.linear(tap.block() > 0 ? attend_kept_in_blocks(op, q, rows, spec, batch, states, tap)
                                       : op.attend_kept(q, batch.spans, rows, spec),
                       wo_);
    }
    const auto [q, k, v] = project(op, h, turns);
    const Tensor query = tap.query(s_.cache, q, batch), key = tap.key(s_.cache, k, batch),
                 value = tap.value(s_.cache, v, batch);
    if (layer_.shared && tap.block() > 0 && tail == Tail::Full)
      return op.linear(attend_shared_in_blocks(op, {query, key, value, wo_, spec}, batch, states, tap), wo_);
    const Tensor o = attend_cached(op, s_, {query, key, value, wo_, spec}, batch, states, tap, tail);
    return o ? op.linear(o, wo_) : h;
  }

 private:
  bool owns() const { return layer_.owner == layer_.index; }

  /// Under a tap with blocks every layer reads a block's rows as they are until the block is complete, and this one is
  /// through with all blocks before a later layer begins: for those its rows stay as they are, and its own are others.
  Tensor attend_shared_in_blocks(Ops& op, const CachedAttention& a, const Batch& batch, LayerStates& states,
                                 KvTap& tap) const {
    op.keep_rows(a.k, a.v, batch.spans, states.kv_rows(batch));
    const std::vector<KvRows*> rows = states.latent_rows(batch);
    const Tensor o = op.attention(a.q, a.k, a.v, batch.spans, rows, a.spec);
    store(op, rows, batch, tap);
    for (const SequenceSpan& s : batch.sequences)  // later layers make their own
      if (s.span.first_position + s.span.n_tokens == s.sequence_tokens) states.own(s.sequence).latent = {};
    return o;
  }

  /// The same of a layer that reads the rows `kept` of another. A whole sequence has no block behind which it goes on.
  Tensor attend_kept_in_blocks(Ops& op, const Tensor& q, std::vector<const KvRows*> kept, const AttentionSpec& spec,
                               const Batch& batch, LayerStates& states, KvTap& tap) const {
    const std::vector<KvRows*> rows = states.kv_rows(batch);
    for (size_t i = 0; i < rows.size(); ++i) {
      if (!rows[i]) continue;
      const Span& span = batch.spans[i];
      const Span all{0, span.n_tokens, span.first_position};
      const auto of_span = [&](const Owned& x) { return x.view.rows(span.first_position, span.n_tokens); };
      op.keep_rows(of_span(kept[i]->key), of_span(kept[i]->value), {&all, 1}, {&rows[i], 1});
      kept[i] = rows[i];
    }
    const Tensor o = op.attend_kept(q, batch.spans, kept, spec);
    store(op, rows, batch, tap);
    return o;
  }

  void store(Ops& op, std::span<KvRows* const> rows, const Batch& batch, KvTap& tap) const {
    store_blocks(op, batch, rows, tap.block(), [&](size_t i, int64_t first) {
      const auto block = [&](const Owned& x) { return x.view.rows(first, tap.block()); };
      return tap.stored(s_.cache, {block(rows[i]->key), block(rows[i]->value)});
    });
  }

  struct Projected {
    Tensor q, k, v;  // [tokens, heads, head_dim]
  };
  Projected project(Ops& op, const Tensor& h, const Tensor& turns) const {
    const int64_t dim = layer_.head_dim;
    const float eps = c_.dims.eps;
    if (layer_.keys_as_values) {
      const HeadsPart parts[] = {{dim, q_norm_, true}, {dim, {}, false}};
      const auto heads = op.project_heads(h, qkv_, {parts, eps, turns, rope_});
      return {heads[0], op.rope(op.rms_norm(heads[1], k_norm_, eps), turns, rope_), op.rms_norm(heads[1], {}, eps)};
    }
    const HeadsPart parts[] = {{dim, q_norm_, true}, {dim, k_norm_, true}, {dim, {}, false}};
    const auto heads = op.project_heads(h, qkv_, {parts, eps, turns, rope_});
    return {heads[0], heads[1], op.rms_norm(heads[2], {}, eps)};
  }

  const Gemma4Config& c_;
  Gemma4Layer layer_;
  const KvLayout& s_;
  const RopeSpec& rope_;
  LinearGroup qkv_;  // q alone where the rows are another layer's; no v where keys are values
  Linear wo_;        // [hidden, n_heads·D]
  Owned q_norm_, k_norm_;
};

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

/// A token's embedding for one layer, gated by the stream and added to it.
class LayerEmbedding {
 public:
  LayerEmbedding(const Gemma4Config& c, int layer, WeightLoader& loader, WeightBinder& model, WeightBinder& w)
      : eps_(c.dims.eps),
        layer_(layer),
        n_layers_(c.dims.n_layers),
        vocab_(c.per_layer_vocab),
        pad_(c.pad),
        input_factor_(in_activation_type(loader, std::sqrt(static_cast<float>(c.dims.hidden)))),
        own_factor_(in_activation_type(loader, std::sqrt(static_cast<float>(c.per_layer_dim)))),
        projection_factor_(1 / std::sqrt(static_cast<float>(c.dims.hidden))) {
    const int64_t p = c.per_layer_dim, hidden = c.dims.hidden, all = n_layers_ * p;
    inputs_ = model("embed_tokens.weight", {c.dims.vocab, hidden});
    // Row id · n_layers + layer of the table as [vocab · n_layers, p].
    table_ = model("embed_tokens_per_layer.weight", {vocab_, all}).reshaped({vocab_ * n_layers_, p});
    const HostLinear part = projection(model, "per_layer_model_projection", all, hidden).rows(layer * p, p);
    projection_ = loader.load_linear(part.weight, part.bias, part.input);
    norm_ = load_f32_gain(loader, model, "per_layer_projection_norm", p);
    gate_ = load_projection(loader, w, "per_layer_input_gate", p, hidden);
    out_ = load_projection(loader, w, "per_layer_projection", hidden, p);
    out_norm_ = load_f32_gain(loader, w, "post_per_layer_input_norm", hidden);
  }

  Tensor forward(Ops& op, const Tensor& x, const Batch& batch) const {
    const Tensor own = op.scale(op.embed(table_, rows_of(batch)), own_factor_);
    const Tensor inputs = with_encoder_rows(op, op.scale(op.embed(inputs_, batch.ids), input_factor_), batch);
    const Tensor projected = op.scale(op.linear(inputs, projection_), projection_factor_);
    const Tensor both = op.scale(op.add(op.rms_norm(projected, norm_, eps_), own), std::sqrt(0.5f));
    return op.add(x, op.rms_norm(op.linear(op.glu(op.linear(x, gate_), both, kAct), out_), out_norm_, eps_));
  }

 private:
  /// As servers do, tokens beyond this table take its row 0.
  std::vector<int32_t> rows_of(const Batch& batch) const {
    std::vector<int32_t> rows, ids = batch.ids;
    for (const EncodedToken& t : batch.encoded) ids[static_cast<size_t>(t.row)] = pad_;
    rows.reserve(ids.size());
    for (const int32_t id : ids) rows.push_back(static_cast<int32_t>((id < vocab_ ? id : 0) * n_layers_ + layer_));
    return rows;
  }

  float eps_;
  int64_t layer_, n_layers_, vocab_;
  int32_t pad_;
  float input_factor_, own_factor_, projection_factor_;
  Tensor inputs_, table_;           // [vocab, hidden], [vocab · n_layers, p], host
  Linear projection_, gate_, out_;  // [p, hidden], [p, hidden], [hidden, p]
  Owned norm_, out_norm_;           // [p], [hidden]
};

class Gemma4Block final : public Block {
 public:
  Gemma4Block(const Gemma4Config& c, const Gemma4Layer& layer, const KvLayout& layout, WeightLoader& loader,
              WeightBinder& model, WeightBinder w)
      : eps_(c.dims.eps),
        attention_(c, layer, layout, loader, w),
        mlp_(loader, w.at("mlp."), c.dims.hidden, layer.ffn, Bias::None, kAct),
        attn_norm_(load_f32_gain(loader, w, "input_layernorm", c.dims.hidden)),
        attn_out_norm_(load_f32_gain(loader, w, "post_attention_layernorm", c.dims.hidden)),
        ffn_norm_(load_f32_gain(loader, w, "pre_feedforward_layernorm", c.dims.hidden)),
        ffn_out_norm_(load_f32_gain(loader, w, "post_feedforward_layernorm", c.dims.hidden)) {
    if (c.moe) mixture_.emplace(c, loader, w);
    if (c.per_layer_dim > 0) embedding_.emplace(c, layer.index, loader, model, w);
    if (const Tensor factor = w.optional("layer_scalar", {1})) factor_ = first_value(factor);
  }

  Tensor forward(Ops& op, const Tensor& x, const Batch& batch, LayerStates& states, KvTap& tap, Tail tail) override {
    const Tensor mixed = attention_.forward(op, op.rms_norm(x, attn_norm_, eps_), batch, states, tap, tail);
    if (tail == Tail::Skip) return x;
    const auto [y, normed] = op.add_rms_norm(x, op.rms_norm(mixed, attn_out_norm_, eps_), ffn_norm_, eps_);
    Tensor z = mlp_.forward(op, normed);
    if (mixture_) z = mixture_->forward(op, y, z);
    Tensor out = op.add(y, op.rms_norm(z, ffn_out_norm_, eps_));
    if (embedding_) out = embedding_->forward(op, out, batch);
    return factor_ == 1 ? out : op.scale(out, factor_);
  }

 private:
  float eps_;
  Attention attention_;
  GluMlp mlp_;
  Owned attn_norm_, attn_out_norm_, ffn_norm_, ffn_out_norm_;  // [hidden]
  std::optional<Mixture> mixture_;
  std::optional<LayerEmbedding> embedding_;
  float factor_ = 1;  // of the whole stream
};

}  // namespace

int64_t gemma4_parameters(const Gemma4Config& c, const Gemma4Layer& l) {
  const int64_t hidden = c.dims.hidden, q = c.dims.n_heads * l.head_dim, kv = l.n_kv_heads * l.head_dim;
  const bool biased = c.bias == Bias::Present, owns = l.owner == l.index;
  const int64_t kv_parts = !owns ? 0 : l.keys_as_values ? 1 : 2;
  int64_t n = 2 * hidden * q + kv_parts * hidden * kv + 3 * hidden * l.ffn + 4 * hidden + 1;
  n += (owns ? 2 : 1) * l.head_dim + (biased ? q + kv_parts * kv + hidden : 0);
  if (c.per_layer_dim > 0) n += 3 * hidden * c.per_layer_dim + hidden + (l.index == 0 ? c.per_layer_dim : 0);
  if (c.moe) n += moe_parameters(*c.moe) + 4 * hidden + c.moe->n_experts;
  return n;
}

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
