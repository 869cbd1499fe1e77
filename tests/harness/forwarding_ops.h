// An Ops that passes every call on to another one. Tests derive from it to count, or to do something wrong on purpose.
#pragma once

#include "ops/ops.h"

namespace kvcal {

class ForwardingOps : public Ops {
 public:
  explicit ForwardingOps(Ops& inner) : Ops(inner.precision()), inner_(inner) {}

  std::string isa() const override { return inner_.isa(); }
  std::vector<std::string> notes() const override { return inner_.notes(); }
  Tensor temporary(const Shape& shape, DType dtype) override { return inner_.temporary(shape, dtype); }
  void end_batch() override { inner_.end_batch(); }
  Owned allocate(const Shape& shape, DType dtype) override { return inner_.allocate(shape, dtype); }
  Tensor upload(const Tensor& host) override { return inner_.upload(host); }
  void download(const Tensor& from, const Tensor& host) override { inner_.download(from, host); }
  Mark mark() override { return inner_.mark(); }
  void download_at(const Mark& mark, const Tensor& from, const Tensor& host) override {
    inner_.download_at(mark, from, host);
  }

 protected:
  Linear do_load_linear(const Tensor& w, const Tensor& b) override { return inner_.load_linear(w, b); }
  Linear do_load_linear_f32(const Tensor& w, const Tensor& b) override { return inner_.load_linear_f32(w, b); }
  Owned do_load_vector(const Tensor& w, DType as, float plus) override {
    if (as == DType::F32 && plus == 0) return inner_.load_f32(w);
    return inner_.load_gain(w, plus == 0 ? Gain::Plain : Gain::OnePlus);
  }
  std::shared_ptr<const ColumnNorms> do_load_column_norms(const Tensor& w, const Tensor& e, int64_t n) override {
    return inner_.load_column_norms(w, e, n);
  }
  Tensor do_embed(const Tensor& t, std::span<const int32_t> ids) override { return inner_.embed(t, ids); }
  Tensor do_linear(const Tensor& x, const Linear& w) override { return inner_.linear(x, of_rounded(w)); }
  Tensor do_linear_f32(const Tensor& x, const Linear& w) override { return inner_.linear_f32(x, of_rounded(w)); }
  Tensor do_round_input(const Tensor& x, const InputRounding& r) override { return inner_.round_input(x, r); }
  Tensor do_rms_norm(const Tensor& x, const Tensor& g, float eps) override { return inner_.rms_norm(x, g, eps); }
  Tensor do_add(const Tensor& x, const Tensor& y) override { return inner_.add(x, y); }
  Tensor do_linear_per_head(const Tensor& x, std::span<const Linear> w) override {
    return inner_.linear_per_head(x, w);
  }
  Tensor do_layer_norm(const Tensor& x, const Tensor& g, const Tensor& b, float eps) override {
    return inner_.layer_norm(x, g, b, eps);
  }
  Tensor do_scale(const Tensor& x, float factor) override { return inner_.scale(x, factor); }
  Tensor do_mul(const Tensor& x, const Tensor& y) override { return inner_.mul(x, y); }
  Tensor do_activate(const Tensor& x, Activation act) override { return inner_.activate(x, act); }
  Tensor do_softcap(const Tensor& x, float c) override { return inner_.softcap(x, c); }
  Tensor do_join(const Tensor& a, const Tensor& b) override { return inner_.join(a, b); }
  Tensor do_glu(const Tensor& g, const Tensor& u, Activation act) override { return inner_.glu(g, u, act); }
  Tensor do_sigmoid_mul(const Tensor& x, const Tensor& g) override { return inner_.sigmoid_mul(x, g); }
  Tensor do_columns(const Tensor& x, int64_t from, int64_t n) override { return inner_.columns(x, from, n); }
  Tensor do_take_rows(const Tensor& x, std::span<const int64_t> rows) override { return inner_.take_rows(x, rows); }
  Tensor do_rope_table(std::span<const int32_t> p, int64_t n, const RopeSpec& s) override {
    return inner_.rope_table(p, n, s);
  }
  Tensor do_rope(const Tensor& x, const Tensor& t, const RopeSpec& s) override { return inner_.rope(x, t, s); }
  Tensor do_attention(const Tensor& q, const Tensor& k, const Tensor& v, std::span<const Span> spans,
                      std::span<KvRows* const> rows, const AttentionSpec& spec) override {
    return inner_.attention(q, k, v, spans, rows, spec);
  }
  Tensor do_attend_kept(const Tensor& q, std::span<const Span> spans, std::span<const KvRows* const> rows,
                        const AttentionSpec& spec) override {
    return inner_.attend_kept(q, spans, rows, spec);
  }
  void do_keep_rows(const Tensor& k, const Tensor& v, std::span<const Span> spans,
                    std::span<KvRows* const> rows) override {
    inner_.keep_rows(k, v, spans, rows);
  }
  AttentionSample do_sample_attention(const Tensor& q, const Tensor& k, const Tensor& v, std::span<const Span> spans,
                                      std::span<const KvRows* const> rows, const AttentionSpec& spec,
                                      const SampleRequest& request) override {
    return inner_.sample_attention(q, k, v, spans, rows, spec, request);
  }
  Tensor do_causal_conv(const Tensor& x, const ConvWeights& w, std::span<const Span> spans,
                        std::span<ConvState* const> states) override {
    return inner_.causal_conv(x, w, spans, states);
  }
  Tensor do_l2_norm(const Tensor& x, float eps) override { return inner_.l2_norm(x, eps); }
  DeltaGates do_delta_gates(const Tensor& a, const Tensor& b, const Tensor& l, const Tensor& d) override {
    return inner_.delta_gates(a, b, l, d);
  }
  DeltaGates do_channel_delta_gates(const Tensor& a, const Tensor& b, const Tensor& l, const Tensor& d) override {
    return inner_.channel_delta_gates(a, b, l, d);
  }
  Tensor do_gated_delta_rule(const Tensor& q, const Tensor& k, const Tensor& v, const DeltaGates& gates,
                             std::span<const Span> spans, std::span<DeltaState* const> states) override {
    return inner_.gated_delta_rule(q, k, v, gates, spans, states);
  }
  Tensor do_ssd(const SsmInputs& in, const SsmWeights& w, std::span<const Span> spans,
                std::span<SsmState* const> states) override {
    return inner_.ssd(in, w, spans, states);
  }
  Tensor do_selective_scan(const SsmInputs& in, const SsmWeights& w, std::span<const Span> spans,
                           std::span<SsmState* const> states) override {
    return inner_.selective_scan(in, w, spans, states);
  }
  Tensor do_gated_rms_norm(const Tensor& x, const Tensor& z, const GatedNormSpec& spec) override {
    return inner_.gated_rms_norm(x, z, spec);
  }
  Routing do_route(const Tensor& l, const RoutingSpec& spec) override { return inner_.route(l, spec); }
  Tensor do_experts(const Tensor& x, const Routing& r, std::span<const GluWeights> e) override {
    std::vector<GluWeights> experts(e.begin(), e.end());
    for (GluWeights& w : experts) w = of_rounded(std::move(w));
    return inner_.experts(x, r, experts);
  }
  void do_accumulate(const Tensor& x, const TapTables& t, std::span<const TapRows> r) override {
    inner_.accumulate(x, t, r);
  }
  LinearGroup do_load_linears(std::span<const HostLinear> w) override { return inner_.load_linears(w); }
  SumAndNorm do_add_rms_norm(const Tensor& x, const Tensor& y, const Tensor& g, float eps) override {
    return inner_.add_rms_norm(x, y, g, eps);
  }
  Tensor do_glu_mlp(const Tensor& x, const GluWeights& w) override { return inner_.glu_mlp(x, of_rounded(w)); }
  std::vector<Tensor> do_project_heads(const Tensor& x, const LinearGroup& w, const HeadsSpec& s) override {
    LinearGroup group = w;
    for (Linear& part : group.parts) part = of_rounded(std::move(part));
    return inner_.project_heads(x, group, s);
  }

  Ops& inner_;

 private:
  /// The weight of an input that has been rounded on the way here.
  static Linear of_rounded(Linear w) {
    w.input = {};
    return w;
  }
  static GluWeights of_rounded(GluWeights w) {
    for (Linear* first : {&w.gate, &w.up, &w.gate_up}) first->input = {};
    return w;
  }
};

}  // namespace kvcal
