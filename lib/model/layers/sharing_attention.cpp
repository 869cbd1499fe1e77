#include "model/layers/sharing_attention.h"

#include <algorithm>

#include "model/layers/gemma_parts.h"

namespace kvcal {

SharingAttention::SharingAttention(const SharingAttentionShape& shape, const KvLayout& layout, const RopeSpec& rope,
                                   WeightLoader& loader, WeightBinder& w)
    : shape_(shape), s_(layout), rope_(rope) {
  const int64_t hidden = shape.hidden, dim = shape.head_dim, kv = shape.n_kv_heads * dim;
  std::vector<HostLinear> parts = {projection(w, "self_attn.q_proj", shape.n_heads * dim, hidden, shape.bias)};
  q_norm_ = load_f32_gain(loader, w, "self_attn.q_norm", dim);
  if (shape.owns) {
    parts.push_back(projection(w, "self_attn.k_proj", kv, hidden, shape.bias));
    if (!shape.keys_as_values) parts.push_back(projection(w, "self_attn.v_proj", kv, hidden, shape.bias));
    k_norm_ = load_f32_gain(loader, w, "self_attn.k_norm", dim);
  } else {  // older saves keep projections that nobody uses
    for (const char* name : {"k_proj.weight", "v_proj.weight", "k_norm.weight", "k_proj.bias", "v_proj.bias"})
      if (w.has(std::string("self_attn.") + name)) w.claim(std::string("self_attn.") + name);
  }
  qkv_ = loader.load_linears(parts);
  wo_ = load_output_projection(loader, w, "self_attn.o_proj", hidden, {shape.n_heads, dim}, shape.bias, OutputTo::Norm);
}

AttentionSpec SharingAttention::spec(const Batch& batch, const KvTap& tap) const {
  AttentionSpec spec{static_cast<float>(s_.softmax_scale), s_.window, shape_.cap};
  if (shape_.images_seen_whole) spec.last_keys = batch.last_keys;
  spec.probabilities = tap.probabilities(s_.cache);
  return spec;
}

Tensor SharingAttention::forward(Ops& op, const Tensor& h, const Batch& batch, LayerStates& states, KvTap& tap,
                                 Tail tail) const {
  if (!shape_.owns) return read_kept(op, h, batch, states, tap, tail);
  const AttentionSpec attention = spec(batch, tap);
  const auto [q, k, v] = project(op, h, op.rope_table(batch.positions, batch.n_tokens(), rope_));
  const Tensor query = tap.query(s_.cache, q, batch), key = tap.key(s_.cache, k, batch),
               value = tap.value(s_.cache, v, batch);
  if (shape_.shared && tap.block() > 0 && tail == Tail::Full)
    return op.linear(attend_shared_in_blocks(op, {query, key, value, wo_, attention}, batch, states, tap), wo_);
  const Tensor o = attend_cached(op, s_, {query, key, value, wo_, attention}, batch, states, tap, tail);
  return o ? op.linear(o, wo_) : h;
}

Tensor SharingAttention::read_kept(Ops& op, const Tensor& h, const Batch& batch, LayerStates& states, KvTap& tap,
                                   Tail tail) const {
  const AttentionSpec attention = spec(batch, tap);
  const Tensor turns = op.rope_table(batch.positions, batch.n_tokens(), rope_);
  const HeadsPart parts[] = {{shape_.head_dim, q_norm_, true}};
  const Tensor q = tap.query(s_.cache, op.project_heads(h, qkv_, {parts, shape_.eps, turns, rope_})[0], batch);
  const std::vector<const KvRows*> rows = states.owner_rows(batch);
  if (tap.samples()) tap.attention(op, s_.cache, {q, {}, {}, rows, attention, *wo_.column_norms}, batch);
  if (tail == Tail::Skip) return h;
  return op.linear(tap.block() > 0 ? attend_kept_in_blocks(op, q, rows, attention, batch, states, tap)
                                   : op.attend_kept(q, batch.spans, rows, attention),
                   wo_);
}

/// Under a tap with blocks every layer reads a block's rows as they are until the block is complete, and this one is
/// through with all blocks before a later layer begins: for those its rows stay as they are, and its own are others.
Tensor SharingAttention::attend_shared_in_blocks(Ops& op, const CachedAttention& a, const Batch& batch,
                                                 LayerStates& states, KvTap& tap) const {
  op.keep_rows(a.k, a.v, batch.spans, states.kv_rows(batch));
  const std::vector<KvRows*> rows = states.latent_rows(batch);
  const Tensor o = op.attention(a.q, a.k, a.v, batch.spans, rows, a.spec);
  store(op, rows, batch, tap);
  for (const SequenceSpan& s : batch.sequences)  // later layers make their own
    if (s.span.first_position + s.span.n_tokens == s.sequence_tokens) states.own(s.sequence).latent = {};
  return o;
}

/// The same of a layer that reads the rows `kept` of another. A whole sequence has no block behind which it goes on.
Tensor SharingAttention::attend_kept_in_blocks(Ops& op, const Tensor& q, std::vector<const KvRows*> kept,
                                               const AttentionSpec& spec, const Batch& batch, LayerStates& states,
                                               KvTap& tap) const {
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

void SharingAttention::store(Ops& op, std::span<KvRows* const> rows, const Batch& batch, KvTap& tap) const {
  store_blocks(op, batch, rows, tap.block(), [&](size_t i, int64_t first) {
    const auto block = [&](const Owned& x) { return x.view.rows(first, tap.block()); };
    return tap.stored(s_.cache, {block(rows[i]->key), block(rows[i]->value)});
  });
}

SharingAttention::Projected SharingAttention::project(Ops& op, const Tensor& h, const Tensor& turns) const {
  const int64_t dim = shape_.head_dim;
  const float eps = shape_.eps;
  if (shape_.keys_as_values) {
    const HeadsPart parts[] = {{dim, q_norm_, true}, {dim, {}, false}};
    const auto heads = op.project_heads(h, qkv_, {parts, eps, turns, rope_});
    return {heads[0], op.rope(op.rms_norm(heads[1], k_norm_, eps), turns, rope_), op.rms_norm(heads[1], {}, eps)};
  }
  const HeadsPart parts[] = {{dim, q_norm_, true}, {dim, k_norm_, true}, {dim, {}, false}};
  const auto heads = op.project_heads(h, qkv_, {parts, eps, turns, rope_});
  return {heads[0], heads[1], op.rms_norm(heads[2], {}, eps)};
}

std::vector<int> read_cache_owners(const Json& text, const std::vector<bool>& full, int64_t default_shared) {
  const int64_t n = static_cast<int64_t>(full.size()),
                n_shared = read_optional_size(text, "num_kv_shared_layers", default_shared);
  if (n_shared >= n)
    fail("num_kv_shared_layers is " + std::to_string(n_shared) + " of " + std::to_string(n) + " layers");
  std::vector<int> owners;
  for (int64_t i = 0; i < n; ++i) {
    int64_t owner = std::min(i, n - n_shared);
    if (i >= n - n_shared) do
        --owner;
      while (owner >= 0 && full[static_cast<size_t>(owner)] != full[static_cast<size_t>(i)]);
    if (owner < 0)
      fail(std::string("num_kv_shared_layers leaves no layer of ") +
           (full[static_cast<size_t>(i)] ? "full" : "sliding") + "_attention that owns a KV cache");
    owners.push_back(static_cast<int>(owner));
  }
  return owners;
}

void share_cache(ModelSpec& spec, int owner) {
  spec.caches.pop_back();
  LayerSpec& reader = spec.layers.back();
  reader.cache = -1;
  reader.shares_cache = spec.layers[static_cast<size_t>(owner)].cache;
}

}  // namespace kvcal
