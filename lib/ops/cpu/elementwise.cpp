// Elementwise ops: f32 inside, 8 values at a time.
#include "ops/cpu/activations.h"
#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/math.h"

namespace kvcal::cpu {

template <class F>
Tensor CpuBackend::map(const Tensor& x, F&& f) {
  const Tensor z = temporary(x.shape, x.dtype);
  visit_activation(z.dtype, [&](auto tag) {
    using T = decltype(tag);
    parallel_rows(x.elements(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i += kLanes) store(z.as<T>() + i, f(load(x.as<T>() + i, end - i)), end - i);
    });
  });
  return z;
}

Tensor CpuBackend::do_add(const Tensor& x, const Tensor& y) {
  const Tensor z = activation(x.shape);
  visit_activation(z.dtype, [&](auto tag) {
    using T = decltype(tag);
    parallel_rows(x.elements(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i += kLanes)
        store(z.as<T>() + i, load(x.as<T>() + i, end - i) + load(y.as<T>() + i, end - i), end - i);
    });
  });
  return z;
}

Tensor CpuBackend::do_scale(const Tensor& x, float factor) {
  return map(x, [factor](F32x8 v) { return v * factor; });
}

Tensor CpuBackend::do_softcap(const Tensor& x, float c) {
  return map(x, [c](F32x8 v) { return tanh(v / c) * c; });
}

Tensor CpuBackend::do_clamp(const Tensor& x, float least, float most) {
  return map(x, [=](F32x8 v) { return v > most ? splat(most) : v < least ? splat(least) : v; });
}

Tensor CpuBackend::do_xielu(const Tensor& x, const XieluWeights& w) {
  const auto value = [](const Tensor& t) { return double{*t.as<float>()}; };
  return map(
      x, Xielu{softplus(value(w.alpha_p)), value(w.beta) + softplus(value(w.alpha_n)), value(w.beta), value(w.eps)});
}

Tensor CpuBackend::do_activate(const Tensor& x, Activation act) {
  return visit_act(act, [&](auto f) { return map(x, f); });
}

Tensor CpuBackend::do_mul(const Tensor& x, const Tensor& y) {
  const Tensor z = activation(x.shape);
  const int64_t width = x.dim(-1), rows = width > 0 ? x.elements() / width : 0;
  const bool per_row = y.elements() != x.elements();
  visit_activation(z.dtype, [&](auto tag) {
    using T = decltype(tag);
    visit_activation(y.dtype, [&](auto y_tag) {
      using Y = decltype(y_tag);
      parallel_rows(rows, width, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r)
          for (int64_t i = 0; i < width; i += kLanes) {
            const int64_t at = r * width + i, left = width - i;
            const F32x8 f = per_row ? splat(load(y.as<Y>() + r, 1)[0]) : load(y.as<Y>() + at, left);
            store(z.as<T>() + at, load(x.as<T>() + at, left) * f, left);
          }
      });
    });
  });
  return z;
}

Tensor CpuBackend::do_glu(const Tensor& gate, const Tensor& up, Activation act) {
  const Tensor z = activation(gate.shape);
  visit_activation(z.dtype, [&](auto tag) {
    using T = decltype(tag);
    parallel_rows(gate.elements(), 1, [&](int64_t begin, int64_t end) {
      glu_row(gate.as<T>() + begin, up.as<T>() + begin, z.as<T>() + begin, end - begin, act);
    });
  });
  return z;
}

Tensor CpuBackend::do_sigmoid_mul(const Tensor& x, const Tensor& gate) {
  const Tensor z = activation(x.shape);
  const int64_t width = x.dim(-1), rows = width > 0 ? x.elements() / width : 0;
  const bool per_row = gate.elements() != x.elements();
  visit_activation(z.dtype, [&](auto tag) {
    using T = decltype(tag);
    parallel_rows(rows, width, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        for (int64_t i = 0; i < width; i += kLanes) {
          const int64_t at = r * width + i, left = width - i;
          const F32x8 g = per_row ? load(gate.as<T>() + r, 1)[0] + F32x8{} : load(gate.as<T>() + at, left);
          store(z.as<T>() + at, load(x.as<T>() + at, left) * rounded_to<T>(sigmoid(g)), left);
        }
    });
  });
  return z;
}

Ops::DeltaGates CpuBackend::do_delta_gates(const Tensor& a, const Tensor& b, const Tensor& a_log,
                                           const Tensor& dt_bias) {
  const DeltaGates gates{temporary(a.shape, DType::F32), temporary(a.shape, DType::F32)};
  const int64_t heads = a.dim(-1), rows = heads > 0 ? a.elements() / heads : 0;
  std::vector<double> decay(static_cast<size_t>(heads));
  for (int64_t h = 0; h < heads; ++h) decay[static_cast<size_t>(h)] = -portable_exp(double{a_log.as<float>()[h]});
  visit_activation(activation_dtype(), [&](auto tag) {
    using T = decltype(tag);
    constexpr int64_t kCost = 64;  // of one value, in elementwise operations
    parallel_rows(rows, heads * kCost, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin * heads; i < end * heads; ++i) {
        const int64_t h = i % heads;
        const float shifted = load(a.as<T>() + i, 1)[0] + dt_bias.as<float>()[h];
        gates.g.as<float>()[i] = static_cast<float>(decay[static_cast<size_t>(h)] * softplus(double{shifted}));
        gates.beta.as<float>()[i] = sigmoid(load(b.as<T>() + i, 1))[0];
      }
    });
  });
  return gates;
}

}  // namespace kvcal::cpu
