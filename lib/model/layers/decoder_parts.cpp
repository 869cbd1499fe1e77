#include "model/layers/decoder_parts.h"

namespace kvcal {
namespace {

class TokenEmbedding final : public Embedding {
 public:
  TokenEmbedding(const Tensor& table, float factor) : table_(table), factor_(factor) {}
  Tensor forward(Ops& op, const Batch& batch) override {
    const Tensor rows = op.embed(table_, batch.ids);
    return factor_ == 1 ? rows : op.scale(rows, factor_);
  }

 private:
  Tensor table_;  // [vocab, hidden], host
  float factor_;
};

class OutputHead final : public Head {
 public:
  OutputHead(Norm norm, const LogitsEnd& end, Linear head)
      : norm_(std::move(norm)), end_(end), head_(std::move(head)) {}
  Tensor forward(Ops& op, const Tensor& x) override {
    Tensor logits = op.linear(norm_.forward(op, x), head_);
    if (end_.factor != 1) logits = op.scale(logits, end_.factor);
    return end_.cap > 0 ? op.softcap(logits, end_.cap) : logits;
  }

 private:
  Norm norm_;  // [hidden]
  LogitsEnd end_;
  Linear head_;  // [vocab, hidden]
};

}  // namespace

std::unique_ptr<Embedding> load_token_embedding(const ModelSpec& spec, WeightBinder& weights, float factor) {
  return std::make_unique<TokenEmbedding>(weights(spec.embedding, {spec.vocab, spec.hidden}), factor);
}

std::unique_ptr<Head> load_output_head(const ModelSpec& spec, Norm norm, const LogitsEnd& end, WeightLoader& loader,
                                       WeightBinder& weights, WeightBinder& head) {
  const Tensor table =
      spec.tied_head ? weights(spec.embedding, {spec.vocab, spec.hidden}) : head(spec.head, {spec.vocab, spec.hidden});
  const std::string module = spec.head.substr(0, spec.head.rfind('.'));
  const Tensor bias = end.bias == Bias::Present ? head(module + ".bias", {spec.vocab}) : Tensor{};
  return std::make_unique<OutputHead>(std::move(norm), end, loader.load_linear(table, bias));
}

std::unique_ptr<Head> load_output_head(const ModelSpec& spec, Gain gain, float eps, WeightLoader& loader,
                                       WeightBinder& weights, WeightBinder& head, const LogitsEnd& end) {
  const Norm norm{Norm::Kind::Rms, eps, loader.load_gain(weights(spec.final_norm, {spec.hidden}), gain), {}};
  return load_output_head(spec, norm, end, loader, weights, head);
}

Norm load_layer_norm(WeightLoader& loader, WeightBinder& w, const std::string& name, int64_t n, float eps, Bias bias) {
  return {Norm::Kind::Layer, eps, loader.load_f32(w(name + ".weight", {n})),
          bias == Bias::Present ? loader.load_f32(w(name + ".bias", {n})) : Owned{}};
}

HostLinear projection(WeightBinder& w, const std::string& name, int64_t out, int64_t in, Bias bias) {
  const Tensor weight = w(name + ".weight", {out, in});
  return {weight, bias == Bias::Present ? w(name + ".bias", {out}) : Tensor{}, w.inputs_of(name + ".weight")};
}

Linear load_projection(WeightLoader& loader, WeightBinder& w, const std::string& name, int64_t out, int64_t in,
                       Bias bias) {
  const HostLinear p = projection(w, name, out, in, bias);
  return loader.load_linear(p.weight, p.bias, p.input);
}

Linear load_output_projection(WeightLoader& loader, WeightBinder& w, const std::string& name, int64_t out,
                              HeadColumns in, Bias bias, OutputTo to) {
  const HostLinear p = projection(w, name, out, in.n_heads * in.width, bias);
  Linear linear = loader.load_linear(p.weight, p.bias, p.input);
  linear.column_norms = loader.load_column_norms(p.weight, {}, in.n_heads);
  if (linear.column_norms && to != OutputTo::Stream) {  // absent where weights are only looked at
    ColumnNorms norms = *linear.column_norms;
    norms.reaches_stream = false;
    linear.column_norms = std::make_shared<const ColumnNorms>(std::move(norms));
  }
  return linear;
}

void share_input(Linear& a, Linear& b) {
  if (alike(a.input, b.input)) a.input = b.input = common(a.input, b.input);
}

LinearGroup load_qkv(WeightLoader& loader, WeightBinder& w, const DecoderDims& d, Bias bias,
                     const std::string& module) {
  const HostLinear parts[] = {projection(w, module + ".q_proj", d.n_heads * d.head_dim, d.hidden, bias),
                              projection(w, module + ".k_proj", d.n_kv_heads * d.head_dim, d.hidden, bias),
                              projection(w, module + ".v_proj", d.n_kv_heads * d.head_dim, d.hidden, bias)};
  return loader.load_linears(parts);
}

LinearGroup load_fused_qkv(WeightLoader& loader, WeightBinder& w, const std::string& name, const DecoderDims& d,
                           Bias bias) {
  const int64_t q = d.n_heads * d.head_dim, kv = d.n_kv_heads * d.head_dim;
  const HostLinear all = projection(w, name, q + 2 * kv, d.hidden, bias);
  const HostLinear parts[] = {all.rows(0, q), all.rows(q, kv), all.rows(q + kv, kv)};
  return loader.load_linears(parts);
}

GluWeights load_glu(WeightLoader& loader, WeightBinder& w, const GluShape& shape) {
  const auto& [hidden, ffn, bias, act] = shape;
  const HostLinear down = projection(w, "down_proj", hidden, ffn, bias);
  if (w.has("gate_up_proj.weight")) {
    const HostLinear both = projection(w, "gate_up_proj", 2 * ffn, hidden, bias);
    return loader.load_glu(both.rows(0, ffn), both.rows(ffn, ffn), down, act);
  }
  return loader.load_glu(projection(w, "gate_proj", ffn, hidden, bias), projection(w, "up_proj", ffn, hidden, bias),
                         down, act);
}

GluMlp::GluMlp(WeightLoader& loader, WeightBinder weights, int64_t hidden, int64_t ffn, Bias bias, Activation act)
    : w(kvcal::load_glu(loader, weights, {hidden, ffn, bias, act})) {}

Tensor GluMlp::forward(Ops& op, const Tensor& x) const { return op.glu_mlp(x, w); }

GluWeights load_fused_glu(WeightLoader& loader, WeightBinder& w, const FusedGluNames& names, int64_t hidden,
                          int64_t ffn) {
  const HostLinear both = projection(w, names.gate_up, 2 * ffn, hidden);
  return loader.load_glu(both.rows(0, ffn), both.rows(ffn, ffn), projection(w, names.down, hidden, ffn));
}

Tensor attend(Ops& op, const KvLayout& s, std::span<const Tensor> qkv, const Linear& wo, const Batch& batch,
              LayerStates& states, KvTap& tap, Tail tail, AttentionSpec more) {
  more.scale = static_cast<float>(s.softmax_scale);
  more.window = s.window;
  more.probabilities = tap.probabilities(s.cache);
  return attend_cached(
      op, s,
      {tap.query(s.cache, qkv[0], batch), tap.key(s.cache, qkv[1], batch), tap.value(s.cache, qkv[2], batch), wo, more},
      batch, states, tap, tail);
}

void store_blocks(Ops& op, const Batch& batch, std::span<KvRows* const> rows, int64_t block, const StoredRows& stored) {
  for (size_t i = 0; i < rows.size(); ++i) {
    const Span& span = batch.spans[i];
    const int64_t end = span.first_position + span.n_tokens;
    if (!rows[i] || end % block != 0) continue;
    const KvTap::Rows now = stored(i, end - block);
    rows[i]->n_tokens -= block;
    const Span replaced{0, block, end - block};
    op.keep_rows(now.k, now.v, {&replaced, 1}, rows.subspan(i, 1));
  }
}

Tensor attend_cached(Ops& op, const KvLayout& s, const CachedAttention& a, const Batch& batch, LayerStates& states,
                     KvTap& tap, Tail tail) {
  const std::vector<KvRows*> rows = states.kv_rows(batch);
  Tensor o;
  if (tail == Tail::Full)
    o = op.attention(a.q, a.k, a.v, batch.spans, rows, a.spec);
  else if (tap.samples())
    op.keep_rows(a.k, a.v, batch.spans, rows);
  if (tail == Tail::Full && tap.block() > 0)
    store_blocks(op, batch, rows, tap.block(), [&](size_t i, int64_t first) {
      const auto block = [&](const Owned& all) { return all.view.rows(first, tap.block()); };
      return tap.stored(s.cache, {block(rows[i]->key), block(rows[i]->value)});
    });
  const std::vector<const KvRows*> kept(rows.begin(), rows.end());
  if (tap.samples()) tap.attention(op, s.cache, {a.q, a.k, a.v, kept, a.spec, *a.wo.column_norms}, batch);
  return o;
}

}  // namespace kvcal
