// Activations of feed-forwards, alone and as the gate of a product.
#include "kernels/device/map.cuh"
#include "kernels/kernels.h"
#include "ops/visit_activation.h"

namespace kvcal::cuda {
namespace {

struct Silu {
  __device__ float operator()(float x) const { return silu(x); }
};
struct Gelu {
  __device__ float operator()(float x) const { return 0.5f * x * erfcf(x * -0.70710678f); }
};
/// 0.5 (1 + tanh(u)) is σ(2u).
struct GeluTanh {
  __device__ float operator()(float x) const { return x * sigmoid(1.5957691216057308f * (x + 0.044715f * x * x * x)); }
};
struct Relu {
  __device__ float operator()(float x) const { return x < 0.0f ? 0.0f : x; }  // NaN stays
};
struct Relu2 {
  __device__ float operator()(float x) const {
    const float y = Relu()(x);
    return y * y;
  }
};

/// The parameters lie in device memory: every thread makes of them what acts.
struct Xielu {
  XieluNumbers w;
  __device__ float operator()(float x) const {
    const float beta = *w.beta, eps = *w.eps;
    const auto acting = [](float alpha) { return alpha > 20.0f ? alpha : log1pf(expf(alpha)); };
    if (x > 0.0f) return acting(*w.alpha_p) * x * x + beta * x;
    return (expm1f(x < eps ? x : eps) - x) * (beta + acting(*w.alpha_n)) + beta * x;
  }
};

/// The reference framework rounds the activation's result before the product.
template <class T, class Act>
struct Glu {
  Act act;
  __device__ float operator()(float gate, float up) const { return rounded_to<T>(act(gate)) * up; }
};

constexpr float kGluLimit = 7.0f;  // of Clamped and Capped

__device__ inline float at_most(float x) { return x > kGluLimit ? kGluLimit : x; }
__device__ inline float within(float x) { return x < -kGluLimit ? -kGluLimit : at_most(x); }

struct ClampedGlu {
  __device__ float operator()(float gate, float up) const {
    constexpr float kAlpha = 1.702f;  // of gpt-oss
    const float g = at_most(gate);
    return g * sigmoid(kAlpha * g) * (within(up) + 1.0f);
  }
};

template <class T>
struct CappedGlu {
  __device__ float operator()(float gate, float up) const { return at_most(rounded_to<T>(silu(gate))) * within(up); }
};

/// f(functor) for an activation without needs_gate().
template <class F>
void visit_act(Activation act, F&& f) {
  switch (act) {
    case Activation::Gelu:
      return f(Gelu());
    case Activation::GeluTanh:
      return f(GeluTanh());
    case Activation::Relu:
      return f(Relu());
    case Activation::Relu2:
      return f(Relu2());
    default:
      return f(Silu());
  }
}

/// f(T, functor of gate and up)
template <class F>
void visit_glu(DType t, Activation act, F&& f) {
  visit_activation(t, [&]<class T>(T tag) {
    if (act == Activation::Clamped)
      f(tag, ClampedGlu());
    else if (act == Activation::Capped)
      f(tag, CappedGlu<T>());
    else
      visit_act(act, [&]<class Act>(Act a) { f(tag, Glu<T, Act>{a}); });
  });
}

}  // namespace

// ---------------------------------------------------------------- launchers

void activate(DType t, const void* x, Activation act, void* z, int64_t n, cudaStream_t stream) {
  visit_activation(t, [&]<class T>(T) { visit_act(act, [&](auto f) { map<T>(x, z, n, f, stream); }); });
}

void xielu(DType t, const void* x, const XieluNumbers& w, void* z, int64_t n, cudaStream_t stream) {
  visit_activation(t, [&]<class T>(T) { map<T>(x, z, n, Xielu{w}, stream); });
}

void glu(DType t, const void* gate, const void* up, Activation act, void* z, int64_t n, cudaStream_t stream) {
  visit_glu(t, act, [&]<class T>(T, auto f) { map_pair<T, T>(gate, up, z, n, f, stream); });
}

void glu_halves(DType t, const void* gate_up, Activation act, void* z, const Rows& rows, cudaStream_t stream) {
  visit_glu(t, act, [&]<class T>(T, auto f) { map_halves<T>(gate_up, z, rows, f, stream); });
}

}  // namespace kvcal::cuda
