// The list of all ops, for every Ops that stands around another one: an op needs one line here.
#pragma once

#include "ops/ops.h"

namespace kvcal {

/// An Ops whose memory and weights are those of another one.
class OpsAround : public Ops {
 public:
  explicit OpsAround(Ops& inner) : Ops(inner.precision()), inner_(inner) {}

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
  Owned do_load_vector(const Tensor& w, DType as, float plus) override { return load_vector(inner_, w, as, plus); }
  std::shared_ptr<const ColumnNorms> do_load_column_norms(const Tensor& w, const Tensor& e, int64_t n) override {
    return inner_.load_column_norms(w, e, n);
  }
  LinearGroup do_load_linears(std::span<const HostLinear> w) override { return inner_.load_linears(w); }

  /// The public call behind which do_load_vector() stands.
  static Owned load_vector(WeightLoader& loader, const Tensor& w, DType as, float plus) {
    if (as == DType::F32 && plus == 0) return loader.load_f32(w);
    return loader.load_gain(w, plus == 0 ? Gain::Plain : Gain::OnePlus);
  }

  Ops& inner_;
};

/// An argument that is in host memory on every backend.
struct OnHost {
  const Tensor& tensor;
  operator const Tensor&() const { return tensor; }
};

/// Every op is Self's call(name, op, arguments...): a template that gets the op's name and public member of Ops.
template <class Self>
class EachOp : public OpsAround {
 public:
  using OpsAround::OpsAround;

 protected:
#define KVCAL_OP(Result, name, parameters, ...) \
  Result do_##name parameters override { return static_cast<Self&>(*this).call(#name, &Ops::name, __VA_ARGS__); }

  KVCAL_OP(Tensor, embed, (const Tensor& table, std::span<const int32_t> ids), OnHost{table}, ids)
  KVCAL_OP(Tensor, linear, (const Tensor& x, const Linear& w), x, w)
  KVCAL_OP(Tensor, linear_f32, (const Tensor& x, const Linear& w), x, w)
  KVCAL_OP(Tensor, round_input, (const Tensor& x, const InputRounding& rounding), x, rounding)
  KVCAL_OP(Tensor, round_cache, (const Tensor& x, const CacheRounding& rounding), x, rounding)
  KVCAL_OP(Tensor, linear_per_head, (const Tensor& x, std::span<const Linear> heads), x, heads)
  KVCAL_OP(Tensor, rms_norm, (const Tensor& x, const Tensor& gain, float eps), x, gain, eps)
  KVCAL_OP(Tensor, layer_norm, (const Tensor& x, const Tensor& gain, const Tensor& bias, float eps), x, gain, bias, eps)
  KVCAL_OP(Tensor, scale, (const Tensor& x, float factor), x, factor)
  KVCAL_OP(Tensor, mul, (const Tensor& x, const Tensor& y), x, y)
  KVCAL_OP(Tensor, activate, (const Tensor& x, Activation act), x, act)
  KVCAL_OP(Tensor, softcap, (const Tensor& x, float c), x, c)
  KVCAL_OP(Tensor, add, (const Tensor& x, const Tensor& y), x, y)
  KVCAL_OP(Tensor, glu, (const Tensor& gate, const Tensor& up, Activation act), gate, up, act)
  KVCAL_OP(Tensor, sigmoid_mul, (const Tensor& x, const Tensor& gate), x, gate)
  KVCAL_OP(Tensor, columns, (const Tensor& x, int64_t from, int64_t n), x, from, n)
  KVCAL_OP(Tensor, join, (const Tensor& a, const Tensor& b), a, b)
  KVCAL_OP(Tensor, take_rows, (const Tensor& x, std::span<const int64_t> rows), x, rows)
  KVCAL_OP(Tensor, rope_table, (std::span<const int32_t> positions, int64_t n_tokens, const RopeSpec& spec), positions,
           n_tokens, spec)
  KVCAL_OP(Tensor, rope, (const Tensor& x, const Tensor& table, const RopeSpec& spec), x, table, spec)
  KVCAL_OP(Tensor, attention,
           (const Tensor& q, const Tensor& k, const Tensor& v, std::span<const Span> spans,
            std::span<KvRows* const> rows, const AttentionSpec& spec),
           q, k, v, spans, rows, spec)
  KVCAL_OP(Tensor, attend_kept,
           (const Tensor& q, std::span<const Span> spans, std::span<const KvRows* const> rows,
            const AttentionSpec& spec),
           q, spans, rows, spec)
  KVCAL_OP(void, keep_rows,
           (const Tensor& k, const Tensor& v, std::span<const Span> spans, std::span<KvRows* const> rows), k, v, spans,
           rows)
  KVCAL_OP(AttentionSample, sample_attention,
           (const Tensor& q, const Tensor& k, const Tensor& v, std::span<const Span> spans,
            std::span<const KvRows* const> rows, const AttentionSpec& spec, const SampleRequest& request),
           q, k, v, spans, rows, spec, request)
  KVCAL_OP(Tensor, causal_conv,
           (const Tensor& x, const ConvWeights& w, std::span<const Span> spans, std::span<ConvState* const> states), x,
           w, spans, states)
  KVCAL_OP(Tensor, l2_norm, (const Tensor& x, float eps), x, eps)
  KVCAL_OP(DeltaGates, delta_gates, (const Tensor& a, const Tensor& b, const Tensor& a_log, const Tensor& dt_bias), a,
           b, a_log, dt_bias)
  KVCAL_OP(DeltaGates, channel_delta_gates,
           (const Tensor& a, const Tensor& b, const Tensor& a_log, const Tensor& dt_bias), a, b, a_log, dt_bias)
  KVCAL_OP(Tensor, gated_delta_rule,
           (const Tensor& q, const Tensor& k, const Tensor& v, const DeltaGates& gates, std::span<const Span> spans,
            std::span<DeltaState* const> states),
           q, k, v, gates, spans, states)
  KVCAL_OP(Tensor, ssd,
           (const SsmInputs& in, const SsmWeights& w, std::span<const Span> spans, std::span<SsmState* const> states),
           in, w, spans, states)
  KVCAL_OP(Tensor, selective_scan,
           (const SsmInputs& in, const SsmWeights& w, std::span<const Span> spans, std::span<SsmState* const> states),
           in, w, spans, states)
  KVCAL_OP(Tensor, gated_rms_norm, (const Tensor& x, const Tensor& z, const GatedNormSpec& spec), x, z, spec)
  KVCAL_OP(Routing, route, (const Tensor& logits, const RoutingSpec& spec), logits, spec)
  KVCAL_OP(Tensor, experts, (const Tensor& x, const Routing& routing, std::span<const GluWeights> experts), x, routing,
           experts)
  KVCAL_OP(void, accumulate, (const Tensor& x, const TapTables& tables, std::span<const TapRows> rows), x, tables, rows)
  KVCAL_OP(SumAndNorm, add_rms_norm, (const Tensor& x, const Tensor& y, const Tensor& gain, float eps), x, y, gain, eps)
  KVCAL_OP(Tensor, glu_mlp, (const Tensor& x, const GluWeights& w), x, w)
  KVCAL_OP(std::vector<Tensor>, project_heads, (const Tensor& x, const LinearGroup& w, const HeadsSpec& spec), x, w,
           spec)

#undef KVCAL_OP
};

}  // namespace kvcal
