#include "model/layers/latent_attention.h"

#include <algorithm>
#include <cmath>

#include "model/layers/weight_rows.h"

namespace kvcal {
namespace {

/// kv_b_proj holds for each head `nope` rows that make its keys, then `value` rows that make its values.
struct ExpansionWeights {
  Storage keys, values;
  InputRounding input;

  ExpansionWeights(const LatentDims& d, WeightBinder& w) : input(w.inputs_of("kv_b_proj.weight")) {
    const Tensor all = w("kv_b_proj.weight", {d.n_heads * (d.nope + d.value), d.kv_rank});
    keys = select_rows(all, RowsOfGroups{d.n_heads, d.nope + d.value, 0, d.nope});
    values = select_rows(all, RowsOfGroups{d.n_heads, d.nope + d.value, d.nope, d.value});
  }
};

/// What forward() allocates for a token; linear_per_head() also has a head's input and output for itself.
int64_t attention_activations(const LatentDims& d) {
  const int64_t row = d.kv_rank + d.rope;
  const int64_t queries = 2 * d.q_rank + d.n_heads * (2 * d.qk() + 3 * d.rope + 2 * d.nope);
  const int64_t absorbed = d.n_heads * (d.nope + 2 * d.kv_rank + row);
  const int64_t rows = 5 * row + d.kv_rank, expanded = d.n_heads * (d.nope + d.qk() + 2 * d.value);
  return queries + absorbed + rows + expanded;
}

}  // namespace

LatentDims read_latent_dims(const Json& text, const DecoderDims& dims, const LatentDims& defaults) {
  const Json* rank = find_member(text, "kv_lora_rank");
  const bool null_rank = text.contains("kv_lora_rank") && text["kv_lora_rank"].is_null();
  if (null_rank || (rank && *rank == 0) || !get_bool_or(text, "use_mla", true))
    fail("kv_lora_rank is null or use_mla is false: the ordinary attention of such a model is not supported");
  LatentDims d = defaults;
  d.hidden = dims.hidden;
  d.n_heads = dims.n_heads;
  d.eps = dims.eps;
  d.kv_rank = read_size(text, "kv_lora_rank", defaults.kv_rank);
  const bool direct = text.contains("q_lora_rank") && text["q_lora_rank"].is_null();
  d.q_rank = direct ? 0 : get_int_or(text, "q_lora_rank", defaults.q_rank);
  if (d.q_rank != 0) d.q_rank = read_size(text, "q_lora_rank", defaults.q_rank);
  d.nope = read_size(text, "qk_nope_head_dim", defaults.nope);
  d.rope = read_size(text, "qk_rope_head_dim", defaults.rope);
  d.value = read_size(text, "v_head_dim", defaults.value);
  d.bias = read_bias(text, "attention_bias");
  constexpr double kMostWeights = 1e15;  // of one projection; sums of what follows from it stay far from overflow
  const double heads = static_cast<double>(d.n_heads) * static_cast<double>(d.qk() + d.value);
  if (heads * static_cast<double>(std::max({d.hidden, d.q_rank, d.kv_rank})) > kMostWeights)
    fail(std::to_string(d.n_heads) + " heads of " + std::to_string(d.qk()) + " and " + std::to_string(d.value) +
         " channels from " + std::to_string(d.hidden) + ", " + std::to_string(d.q_rank) + " and " +
         std::to_string(d.kv_rank) + " are too large");
  return d;
}

LatentAttention::LatentAttention(const LatentDims& d, const KvLayout& layout, const RopeSpec& rope,
                                 WeightLoader& loader, WeightBinder w)
    : dims_(d), layout_(layout), rope_(rope) {
  const int64_t q = d.n_heads * d.qk();
  if (d.q_rank > 0) {
    q_a_ = load_projection(loader, w, "q_a_proj", d.q_rank, d.hidden, d.bias);
    q_norm_ = loader.load_gain(w("q_a_layernorm.weight", {d.q_rank}), Gain::Plain);
    q_b_ = load_projection(loader, w, "q_b_proj", q, d.q_rank);
  } else {
    q_b_ = load_projection(loader, w, "q_proj", q, d.hidden);
  }
  kv_a_ = load_projection(loader, w, "kv_a_proj_with_mqa", d.kv_rank + d.rope, d.hidden, d.bias);
  if (q_a_) share_input(q_a_, kv_a_);
  kv_norm_ = loader.load_gain(w("kv_a_layernorm.weight", {d.kv_rank}), Gain::Plain);
  const ExpansionWeights expansion(d, w);
  // Prefill rounds the latent of a quantized kv_b_proj; decoding multiplies by the absorbed weights as they are.
  k_b_ = loader.load_linear(expansion.keys.tensor(), {}, expansion.input);
  v_b_ = loader.load_linear(expansion.values.tensor(), {}, expansion.input);
  for (int64_t h = 0; h < d.n_heads; ++h)
    absorbed_k_.push_back(loader.load_linear(transposed(expansion.keys.tensor().rows(h * d.nope, d.nope)).tensor()));
  const HostLinear output = projection(w, d.output, d.hidden, d.n_heads * d.value, d.bias);
  wo_ = loader.load_linear(output.weight, output.bias, output.input);
  wo_.column_norms = loader.load_column_norms(output.weight, expansion.values.tensor(), d.n_heads);
}

/// [tokens, q_rank]; where queries have no latent of their own, what they are made of.
Tensor LatentAttention::latent_of_queries(Ops& op, const Tensor& h) const {
  return dims_.q_rank == 0 ? h : op.rms_norm(op.linear(h, q_a_), q_norm_, dims_.eps);
}

Tensor LatentAttention::rotated(Ops& op, const Tensor& x, const Tensor& turns) const {
  return turns ? op.rope(x, turns, rope_) : x;
}

Tensor LatentAttention::grown_query(Ops& op, const Tensor& x, const Batch& batch) const {
  return growth_.beta > 0 ? grown(op, x, growth_, batch) : x;
}

/// row [tokens, 1, kv_rank + rope] -> keys [tokens, n_heads, nope + rope], values [tokens, n_heads, value]. Absorbed
/// queries have the row itself for the key of every head.
KvTap::Rows LatentAttention::expand(Ops& op, const Tensor& row, bool absorbed) const {
  const LatentDims& d = dims_;
  const int64_t n = row.dim(0);
  const Tensor cached = op.columns(row, 0, d.kv_rank).reshaped({n, d.kv_rank});
  const Tensor values = op.linear(cached, v_b_).reshaped({n, d.n_heads, d.value});
  if (absorbed) {
    std::vector<int64_t> rows(static_cast<size_t>(n * d.n_heads));
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int64_t>(i) / d.n_heads;
    return {op.take_rows(row, rows).reshaped({n, d.n_heads, row.dim(2)}), values};
  }
  const Tensor k_nope = op.linear(cached, k_b_).reshaped({n, d.n_heads, d.nope});
  return {op.join(k_nope, op.columns(row, d.kv_rank, d.rope)), values};
}

/// Of h [tokens, hidden], before the tap.
LatentAttention::Projected LatentAttention::project(Ops& op, const Tensor& h, const Batch& batch) const {
  const LatentDims& d = dims_;
  const int64_t n = batch.n_tokens();
  const Tensor turns = rope_.rotary_dim > 0 ? op.rope_table(batch.positions, n, rope_) : Tensor{};
  const Tensor query_latent = latent_of_queries(op, h);
  const Tensor queries = op.linear(query_latent, q_b_).reshaped({n, d.n_heads, d.qk()});
  const Tensor q_nope = grown_query(op, op.columns(queries, 0, d.nope), batch),
               q_pe = grown_query(op, rotated(op, op.columns(queries, d.nope, d.rope), turns), batch);
  const Tensor kv = op.linear(h, kv_a_);  // [tokens, kv_rank + rope]
  const Tensor latent = op.rms_norm(op.columns(kv, 0, d.kv_rank), kv_norm_, d.eps);
  const Tensor k_pe = rotated(op, op.columns(kv, d.kv_rank, d.rope).reshaped({n, 1, d.rope}), turns);
  return {query_latent, q_nope, q_pe, op.join(latent.reshaped({n, 1, d.kv_rank}), k_pe)};
}

Tensor LatentAttention::forward(Ops& op, const Tensor& h, const Batch& batch, LayerStates& states, KvTap& tap,
                                Tail tail) const {
  const LatentDims& d = dims_;
  const KvLayout& s = layout_;
  auto [query_latent, q_nope, q_pe, row] = project(op, h, batch);
  row = tap.latent(s.cache, row, batch);
  const bool absorbs = tap.reads_absorbed_queries(s.cache);
  Tensor absorbed, changed;
  if (absorbs || tap.wants_absorbed_queries() || tap.samples()) {
    absorbed = op.join(op.linear_per_head(q_nope, absorbed_k_), q_pe);
    changed = tap.query(s.cache, absorbed, batch);
  }
  AttentionSpec attention{
      .scale = static_cast<float>(s.softmax_scale), .window = s.window, .probabilities = tap.probabilities(s.cache)};
  KeyChoice choice;
  if (picks_)
    choice = indexer_ ? indexer_->choose(op, h, query_latent, batch, states, tap) : states.earlier_choice(batch);
  choice.apply_to(attention);
  std::vector<KvRows*> latents;  // where the tap wants them later
  Tensor values;
  if (tap.samples() || tap.block() > 0) {
    latents = states.latent_rows(batch);
    values = op.columns(row, 0, d.kv_rank);
    op.keep_rows(row, values, batch.spans, latents);
  }
  if (tap.samples()) {
    const std::vector<const KvRows*> kept(latents.begin(), latents.end());
    tap.attention(op, s.cache, {absorbed, row, values, kept, attention, *wo_.column_norms, true}, batch);
  }
  if (tail == Tail::Skip) return h;

  const KvTap::Rows expanded = expand(op, row, absorbs);
  const std::vector<KvRows*> rows = states.kv_rows(batch);
  const Tensor q = absorbs ? changed : op.join(q_nope, q_pe);
  const Tensor o = op.attention(q, expanded.k, expanded.v, batch.spans, rows, attention);
  if (tap.block() > 0)
    store_blocks(op, batch, rows, tap.block(), [&](size_t i, int64_t first) {
      return expand(op, tap.stored(s.cache, {latents[i]->key.view.rows(first, tap.block()), {}}).k, absorbs);
    });
  return op.linear(o, wo_);
}

KvLayout& add_latent_layer(ModelSpec& spec, const LatentDims& d, const LatentRope& rope, int64_t ffn) {
  KvLayout cache;
  cache.cache = static_cast<int>(spec.caches.size());
  cache.layer = static_cast<int>(spec.layers.size());
  cache.name = "layers." + std::to_string(cache.layer) + "." + d.module;
  cache.kind = "mla";
  cache.n_heads = d.n_heads;
  cache.n_kv_heads = 1;
  cache.head_dim_k = d.kv_rank + d.rope;
  cache.head_dim_v = cache.latent_dim = d.kv_rank;
  cache.rotary_dim = rope.spec.rotary_dim;
  if (cache.rotary_dim > 0) cache.pair_bound = rope.spec.interleaved ? PairBound::Gptj : PairBound::Neox;
  cache.softmax_scale = rope.softmax_factor / std::sqrt(static_cast<double>(d.qk()));
  cache.rope_magnitude = static_cast<double>(rope.spec.magnitude);
  LayerSpec layer;
  layer.index = cache.layer;
  layer.cache = cache.cache;
  layer.attention.module = cache.name + ".";
  layer.attention.query = d.q_rank > 0 ? "q_b_proj" : "q_proj";
  layer.attention.query_inputs = d.q_rank;
  layer.attention.output = d.output;
  layer.attention.nope = d.nope;
  layer.attention.value_dim = d.value;
  layer.copies = d.n_heads * d.nope * d.kv_rank;
  layer.kept_row = d.n_heads * (d.qk() + d.value) + 2 * d.kv_rank + d.rope;  // and the latent rows, for samples
  layer.activations = attention_activations(d) + 7 * d.hidden + 3 * ffn + rope.spec.rotary_dim;
  spec.layers.push_back(layer);
  spec.caches.push_back(cache);
  return spec.caches.back();
}

}  // namespace kvcal
