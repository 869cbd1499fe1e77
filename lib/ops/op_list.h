// The list of all ops: result, name, parameters, and the arguments with which one is passed on. What is declared or
// defined for every op is made of it: the virtuals behind Ops, what backends override, and what forwards or compares.
#pragma once

#include <vector>

#include "tensor/tensor.h"

namespace kvcal {

/// An argument that is in host memory on every backend.
struct OnHost {
  const Tensor& tensor;
  operator const Tensor&() const { return tensor; }
};

}  // namespace kvcal

/// What every backend computes. ops.h says what each is.
#define KVCAL_OPS(OP)                                                                                                 \
  OP(Tensor, embed, (const Tensor& table, std::span<const int32_t> ids), OnHost{table}, ids)                          \
  OP(Tensor, linear, (const Tensor& x, const Linear& w), x, w)                                                        \
  OP(Tensor, linear_f32, (const Tensor& x, const Linear& w), x, w)                                                    \
  OP(Tensor, round_input, (const Tensor& x, const InputRounding& rounding), x, rounding)                              \
  OP(Tensor, round_cache, (const Tensor& x, const CacheRounding& rounding), x, rounding)                              \
  OP(Tensor, linear_per_head, (const Tensor& x, std::span<const Linear> heads), x, heads)                             \
  OP(Tensor, rms_norm, (const Tensor& x, const Tensor& gain, float eps), x, gain, eps)                                \
  OP(Tensor, layer_norm, (const Tensor& x, const Tensor& gain, const Tensor& bias, float eps), x, gain, bias, eps)    \
  OP(Tensor, scale, (const Tensor& x, float factor), x, factor)                                                       \
  OP(Tensor, mul, (const Tensor& x, const Tensor& y), x, y)                                                           \
  OP(Tensor, activate, (const Tensor& x, Activation act), x, act)                                                     \
  OP(Tensor, softcap, (const Tensor& x, float c), x, c)                                                               \
  OP(Tensor, clamp, (const Tensor& x, float least, float most), x, least, most)                                       \
  OP(Tensor, xielu, (const Tensor& x, const XieluWeights& w), x, w)                                                   \
  OP(Tensor, add, (const Tensor& x, const Tensor& y), x, y)                                                           \
  OP(Tensor, glu, (const Tensor& gate, const Tensor& up, Activation act), gate, up, act)                              \
  OP(Tensor, sigmoid_mul, (const Tensor& x, const Tensor& gate), x, gate)                                             \
  OP(Tensor, mix_streams, (const Tensor& x, const Tensor& w), x, w)                                                   \
  OP(Tensor, match_rms, (const Tensor& x, const Tensor& like, float least), x, like, least)                           \
  OP(Tensor, keep_above, (const Tensor& x, float deviations), x, deviations)                                          \
  OP(Tensor, columns, (const Tensor& x, int64_t from, int64_t n), x, from, n)                                         \
  OP(Tensor, join, (const Tensor& a, const Tensor& b), a, b)                                                          \
  OP(Tensor, take_rows, (const Tensor& x, std::span<const int64_t> rows), x, rows)                                    \
  OP(Tensor, rope_table, (std::span<const int32_t> positions, int64_t n_tokens, const RopeSpec& spec), positions,     \
     n_tokens, spec)                                                                                                  \
  OP(Tensor, rope, (const Tensor& x, const Tensor& table, const RopeSpec& spec), x, table, spec)                      \
  OP(Tensor, attention,                                                                                               \
     (const Tensor& q, const Tensor& k, const Tensor& v, std::span<const Span> spans, std::span<KvRows* const> rows,  \
      const AttentionSpec& spec),                                                                                     \
     q, k, v, spans, rows, spec)                                                                                      \
  OP(Tensor, attend_kept,                                                                                             \
     (const Tensor& q, std::span<const Span> spans, std::span<const KvRows* const> rows, const AttentionSpec& spec),  \
     q, spans, rows, spec)                                                                                            \
  OP(Owned, pick_keys,                                                                                                \
     (const Tensor& q, const Tensor& weights, const Tensor& k, std::span<const Span> spans,                           \
      std::span<const KvRows* const> rows, const PickSpec& spec),                                                     \
     q, weights, k, spans, rows, spec)                                                                                \
  OP(void, keep_rows, (const Tensor& k, const Tensor& v, std::span<const Span> spans, std::span<KvRows* const> rows), \
     k, v, spans, rows)                                                                                               \
  OP(AttentionSample, sample_attention,                                                                               \
     (const Tensor& q, const Tensor& k, const Tensor& v, std::span<const Span> spans,                                 \
      std::span<const KvRows* const> rows, const AttentionSpec& spec, const SampleRequest& request),                  \
     q, k, v, spans, rows, spec, request)                                                                             \
  OP(Tensor, causal_conv,                                                                                             \
     (const Tensor& x, const ConvWeights& w, std::span<const Span> spans, std::span<ConvState* const> states), x, w,  \
     spans, states)                                                                                                   \
  OP(Tensor, l2_norm, (const Tensor& x, float eps), x, eps)                                                           \
  OP(DeltaGates, delta_gates, (const Tensor& a, const Tensor& b, const Tensor& a_log, const Tensor& dt_bias), a, b,   \
     a_log, dt_bias)                                                                                                  \
  OP(DeltaGates, channel_delta_gates, (const Tensor& a, const Tensor& b, const Tensor& a_log, const Tensor& dt_bias), \
     a, b, a_log, dt_bias)                                                                                            \
  OP(Tensor, gated_delta_rule,                                                                                        \
     (const Tensor& q, const Tensor& k, const Tensor& v, const DeltaGates& gates, std::span<const Span> spans,        \
      std::span<DeltaState* const> states),                                                                           \
     q, k, v, gates, spans, states)                                                                                   \
  OP(Tensor, ssd,                                                                                                     \
     (const SsmInputs& in, const SsmWeights& w, std::span<const Span> spans, std::span<SsmState* const> states), in,  \
     w, spans, states)                                                                                                \
  OP(Tensor, selective_scan,                                                                                          \
     (const SsmInputs& in, const SsmWeights& w, std::span<const Span> spans, std::span<SsmState* const> states), in,  \
     w, spans, states)                                                                                                \
  OP(Tensor, gated_rms_norm, (const Tensor& x, const Tensor& z, const GatedNormSpec& spec), x, z, spec)               \
  OP(Routing, route, (const Tensor& logits, const RoutingSpec& spec), logits, spec)                                   \
  OP(Tensor, experts, (const Tensor& x, const Routing& routing, std::span<const GluWeights> experts), x, routing,     \
     experts)                                                                                                         \
  OP(void, accumulate, (const Tensor& x, const TapTables& tables, std::span<const TapRows> rows), x, tables, rows)    \
  OP(void, count_states, (std::span<const Tensor> states, const TapTables& tables, std::span<const TapRows> rows),    \
     states, tables, rows)

/// Compositions of these, which a backend may do in one pass over the data.
#define KVCAL_COMPOSED_OPS(OP)                                                                                     \
  OP(SumAndNorm, add_rms_norm, (const Tensor& x, const Tensor& y, const Tensor& gain, float eps), x, y, gain, eps) \
  OP(Tensor, glu_mlp, (const Tensor& x, const GluWeights& w), x, w)                                                \
  OP(std::vector<Tensor>, project_heads, (const Tensor& x, const LinearGroup& w, const HeadsSpec& spec), x, w, spec)
