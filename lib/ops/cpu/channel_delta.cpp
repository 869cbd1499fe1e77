// Gated delta rule with a decay for every channel of a key (Kimi delta attention), in f32, token after token: a head
// depends on nothing but itself, so a result depends neither on the chunk of the sequence nor on what else is in the
// batch. (In chunks the decays do not leave the product of keys, and their quotients overflow.)
#include <cmath>

#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/math.h"
#include "ops/cpu/small_gemm.h"

namespace kvcal::cpu {
namespace {

constexpr int64_t kBlock = 4 * kLanes;  // columns of a state that stay in registers while its rows pass

struct ChannelDelta {
  const Tensor &q, &k, &v;
  const Ops::DeltaGates& gates;
  Tensor y;

  int64_t heads() const { return v.dim(1); }
  int64_t dk() const { return q.dim(2); }
  int64_t dv() const { return v.dim(2); }
  int64_t key_head(int64_t head) const { return head / (heads() / q.dim(1)); }

  /// One head of one span. kept: [dk, dv] before, then after; or null: from zero, and nothing is kept.
  template <class T>
  void run(const Span& span, int64_t head, float* kept, Arena& scratch) const;
};

/// sums[c] = Σ_i weight[i] state[i, c] for the columns [from, from + kBlock), rows in order.
void weighted_sum(const float* state, int64_t stride, int64_t rows, const float* weight, F32x8* sums) {
  for (int j = 0; j < 4; ++j) sums[j] = F32x8{};
  for (int64_t i = 0; i < rows; ++i)
    for (int j = 0; j < 4; ++j) sums[j] += load8(state + i * stride + j * kLanes) * weight[i];
}

template <class T>
void ChannelDelta::run(const Span& span, int64_t head, float* kept, Arena& scratch) const {
  if (span.n_tokens == 0) return;  // done before others of the batch
  const auto floats = [&](int64_t n) { return scratch.allocate({n}, DType::F32).template as<float>(); };
  const int64_t stride = (dv() + kBlock - 1) / kBlock * kBlock, room = (dk() + kLanes - 1) / kLanes * kLanes;
  float *state = floats(dk() * stride), *key = floats(room), *query = floats(room), *decay = floats(room);
  std::fill_n(state, dk() * stride, 0.0f);
  for (int64_t i = 0; kept && i < dk(); ++i) std::copy_n(kept + i * dv(), dv(), state + i * stride);
  const float scale = 1.0f / std::sqrt(static_cast<float>(dk()));
  for (int64_t t = span.row; t < span.row + span.n_tokens; ++t) {
    const int64_t key_row = (t * q.dim(1) + key_head(head)) * dk(), row = t * heads() + head;
    for (int64_t c = 0; c < dk(); c += kLanes) {
      const int64_t left = dk() - c;
      store8(key + c, load(k.as<T>() + key_row + c, left));
      store8(query + c, load(q.as<T>() + key_row + c, left) * scale);
      store8(decay + c, exp(load(gates.g.as<float>() + row * dk() + c, left)));
    }
    const float beta = gates.beta.as<float>()[row];
    for (int64_t i = 0; i < dk(); ++i)
      for (int64_t c = 0; c < stride; c += kLanes)
        store8(state + i * stride + c, load8(state + i * stride + c) * decay[i]);
    for (int64_t c = 0; c < stride; c += kBlock) {
      F32x8 e[4], o[4];
      weighted_sum(state + c, stride, dk(), key, e);
      for (int64_t j = 0; j < 4; ++j) {
        const int64_t at = c + j * kLanes;
        const F32x8 value = at < dv() ? load(v.as<T>() + row * dv() + at, dv() - at) : F32x8{};
        e[j] = (value - e[j]) * beta;
      }
      for (int64_t i = 0; i < dk(); ++i)
        for (int64_t j = 0; j < 4; ++j) {
          float* s = state + i * stride + c + j * kLanes;
          store8(s, load8(s) + e[j] * key[i]);
        }
      weighted_sum(state + c, stride, dk(), query, o);
      for (int64_t j = 0; j < 4; ++j)
        if (const int64_t at = c + j * kLanes; at < dv()) store(y.as<T>() + row * dv() + at, o[j], dv() - at);
    }
  }
  for (int64_t i = 0; kept && i < dk(); ++i) std::copy_n(state + i * stride, dv(), kept + i * dv());
}

}  // namespace

Ops::DeltaGates CpuBackend::do_channel_delta_gates(const Tensor& a, const Tensor& b, const Tensor& a_log,
                                                   const Tensor& dt_bias) {
  const int64_t tokens = a.dim(0), heads = b.dim(1), dk = a.dim(1) / heads;
  const DeltaGates gates{temporary({tokens, heads, dk}, DType::F32), temporary(b.shape, DType::F32)};
  visit_activation(a.dtype, [&](auto tag) {
    using T = decltype(tag);
    parallel_rows(tokens, a.dim(1), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin * heads; i < end * heads; ++i) {
        const int64_t h = i % heads;
        store(gates.beta.as<float>() + i, sigmoid(load(b.as<T>() + i, 1)), 1);
        const double rate = -portable_exp(double{a_log.as<float>()[h]});
        for (int64_t c = 0; c < dk; ++c) {
          const double shifted = double{load(a.as<T>() + i * dk + c, 1)[0]} + double{dt_bias.as<float>()[h * dk + c]};
          gates.g.as<float>()[i * dk + c] = static_cast<float>(rate * softplus(shifted));
        }
      }
    });
  });
  return gates;
}

Tensor CpuBackend::channel_delta_rule(const Tensor& q, const Tensor& k, const Tensor& v, const DeltaGates& gates,
                                      std::span<const Span> spans, std::span<DeltaState* const> states) {
  const ChannelDelta rule{q, k, v, gates, activation(v.shape)};
  const int64_t heads = rule.heads(), size = rule.dk() * rule.dv();
  for (DeltaState* s : states)
    if (s && !s->s) s->s = allocate({heads, rule.dk(), rule.dv()}, DType::F32);
  advance_and_store(spans, states, [&](std::span<const Span> stretch) {
    visit_activation(q.dtype, [&](auto tag) {
      parallel(static_cast<int64_t>(stretch.size()) * heads, [&](int64_t i, Arena& scratch) {
        const auto s = static_cast<size_t>(i / heads);
        const int64_t head = i % heads;
        float* kept = states[s] ? states[s]->s.view.template as<float>() + head * size : nullptr;
        rule.run<decltype(tag)>(stretch[s], head, kept, scratch);
      });
    });
  });
  return rule.y;
}

}  // namespace kvcal::cpu
