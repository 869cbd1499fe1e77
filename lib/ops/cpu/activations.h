// Activations of feed-forwards, 8 values at a time.
#pragma once

#include "base/portable_math.h"
#include "ops/cpu/math.h"
#include "ops/ops.h"

namespace kvcal::cpu {

/// Near 0 the quotient would cancel: the series' next term is 17/315 x^7.
inline F32x8 tanh(F32x8 x) {
  const F32x8 e = exp(-2.0f * (x < 0.0f ? -x : x)), far = (1.0f - e) / (1.0f + e), x2 = x * x;
  const F32x8 near = x * (1.0f + x2 * (-1.0f / 3 + x2 * (2.0f / 15)));
  return x2 < 0.004f ? near : x < 0.0f ? -far : far;
}

/// x Φ(x), each lane in double: used by one family.
inline F32x8 gelu(F32x8 x) {
  F32x8 y;
  for (int i = 0; i < kLanes; ++i)
    y[i] = static_cast<float>(0.5 * double{x[i]} * portable_erfc(double{x[i]} * -0.70710678118654752440));
  return y;
}

/// 0.5 (1 + tanh(u)) is σ(2u).
inline F32x8 gelu_tanh(F32x8 x) { return x * sigmoid(1.5957691216057308f * (x + 0.044715f * x * x * x)); }

inline F32x8 relu(F32x8 x) { return x < 0.0f ? splat(0.0f) : x; }

inline F32x8 relu2(F32x8 x) {
  const F32x8 y = relu(x);
  return y * y;
}

/// xIELU with its parameters as they act.
struct Xielu {
  double p, n, beta, eps;

  /// Each lane in double: near 0 the terms cancel.
  F32x8 operator()(F32x8 x) const {
    F32x8 y;
    for (int i = 0; i < kLanes; ++i) {
      const double v = double{x[i]}, negative = portable_exp(v < eps ? v : eps) - 1 - v;
      y[i] = static_cast<float>((v > 0 ? p * v * v : n * negative) + beta * v);
    }
    return y;
  }
};

/// f(a function of F32x8) for an activation without needs_gate().
template <class F>
auto visit_act(Activation act, F&& f) {
  switch (act) {
    case Activation::Gelu:
      return f([](F32x8 x) { return gelu(x); });
    case Activation::GeluTanh:
      return f([](F32x8 x) { return gelu_tanh(x); });
    case Activation::Relu:
      return f([](F32x8 x) { return relu(x); });
    case Activation::Relu2:
      return f([](F32x8 x) { return relu2(x); });
    default:
      return f([](F32x8 x) { return silu(x); });
  }
}

constexpr float kGluLimit = 7.0f;  // of Clamped and Capped

inline F32x8 at_most(F32x8 x) { return x > kGluLimit ? splat(kGluLimit) : x; }
inline F32x8 within(F32x8 x) { return x < -kGluLimit ? splat(-kGluLimit) : at_most(x); }

inline F32x8 clamped_glu(F32x8 gate, F32x8 up) {
  constexpr float kAlpha = 1.702f;  // of gpt-oss
  const F32x8 g = at_most(gate);
  return g * sigmoid(kAlpha * g) * (within(up) + 1.0f);
}

/// z = glu(gate, up), n elements: the activation's result is rounded, as the reference framework does.
template <class T>
void glu_row(const T* gate, const T* up, T* z, int64_t n, Activation act) {
  if (act == Activation::Clamped) {
    for (int64_t i = 0; i < n; i += kLanes)
      store(z + i, clamped_glu(load(gate + i, n - i), load(up + i, n - i)), n - i);
    return;
  }
  if (act == Activation::Capped) {
    for (int64_t i = 0; i < n; i += kLanes)
      store(z + i, at_most(rounded_to<T>(silu(load(gate + i, n - i)))) * within(load(up + i, n - i)), n - i);
    return;
  }
  visit_act(act, [&](auto f) {
    for (int64_t i = 0; i < n; i += kLanes)
      store(z + i, rounded_to<T>(f(load(gate + i, n - i))) * load(up + i, n - i), n - i);
  });
}

/// z = round(act(x)), n elements.
template <class T>
void activate_row(const T* x, T* z, int64_t n, Activation act) {
  visit_act(act, [&](auto f) {
    for (int64_t i = 0; i < n; i += kLanes) store(z + i, f(load(x + i, n - i)), n - i);
  });
}

}  // namespace kvcal::cpu
