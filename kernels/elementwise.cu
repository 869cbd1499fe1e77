// Ops that treat every element, or row, alone. They move bytes: each thread reads and writes 16 at a time,
// where rows begin at such addresses.
#include "kernels/device/real.cuh"
#include "kernels/kernels.h"
#include "kernels/runtime/launch.h"
#include "ops/visit_activation.h"

namespace kvcal::cuda {
namespace {

constexpr int kThreads = 256;

struct Add {
  __device__ float operator()(float x, float y) const { return x + y; }
};

/// The reference framework rounds silu's result, and the sigmoid, before the product.
template <class T>
struct SiluMul {
  __device__ float operator()(float gate, float up) const { return rounded_to<T>(silu(gate)) * up; }
};
template <class T>
struct SigmoidMul {
  __device__ float operator()(float x, float gate) const { return x * rounded_to<T>(sigmoid(gate)); }
};

/// z[i] = f(x[i], y[i]); one pack a thread, the last thread takes what is left.
template <class T, int kSize, class F>
__global__ void map_kernel(const T* __restrict__ x, const T* __restrict__ y, T* __restrict__ z, int64_t n, F f) {
  using Values = Pack<T, kSize>;
  const int64_t first = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kSize;
  if (first + kSize > n) {
    for (int64_t i = first; i < n; ++i) z[i] = narrow<T>(f(widen(x[i]), widen(y[i])));
    return;
  }
  const auto a = *reinterpret_cast<const Values*>(x + first), b = *reinterpret_cast<const Values*>(y + first);
  Values c;
  for (int i = 0; i < kSize; ++i) c.values[i] = narrow<T>(f(widen(a.values[i]), widen(b.values[i])));
  *reinterpret_cast<Values*>(z + first) = c;
}

template <class T>
__global__ void sigmoid_mul_rows_kernel(const T* __restrict__ x, const T* __restrict__ gate, T* __restrict__ z,
                                        int64_t n, int64_t width) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) z[i] = narrow<T>(SigmoidMul<T>()(widen(x[i]), widen(gate[i / width])));
}

/// One pack a thread; a pack lies in one row.
template <class T, int kSize>
__global__ void silu_mul_halves_kernel(const T* __restrict__ gate_up, T* __restrict__ z, int64_t n, int64_t width) {
  using Values = Pack<T, kSize>;
  const int64_t first = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kSize;
  if (first >= n) return;
  const T* gate = gate_up + first / width * 2 * width + first % width;
  const auto a = *reinterpret_cast<const Values*>(gate), b = *reinterpret_cast<const Values*>(gate + width);
  Values c;
  for (int i = 0; i < kSize; ++i) c.values[i] = narrow<T>(SiluMul<T>()(widen(a.values[i]), widen(b.values[i])));
  *reinterpret_cast<Values*>(z + first) = c;
}

/// A row of `units` units of U, one block row of threads each.
template <class U>
__global__ void take_rows_kernel(const U* __restrict__ from, U* __restrict__ to, const int64_t* __restrict__ rows,
                                 int64_t units) {
  const int64_t i = blockIdx.x;
  for (int64_t u = threadIdx.x; u < units; u += blockDim.x) to[i * units + u] = from[rows[i] * units + u];
}

/// In double, as the CPU does it: few values, whose sum over a chunk goes into an exponential.
template <class T>
__global__ void delta_gates_kernel(const T* __restrict__ a, const T* __restrict__ b, const float* __restrict__ a_log,
                                   const float* __restrict__ dt_bias, float* __restrict__ g, float* __restrict__ beta,
                                   int64_t n, int64_t heads) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n) return;
  const int64_t h = i % heads;
  const double step = softplus(static_cast<double>(widen(a[i]) + dt_bias[h]));
  g[i] = static_cast<float>(-exp(static_cast<double>(a_log[h])) * step);
  beta[i] = sigmoid(widen(b[i]));
}

/// Whether 16 bytes can be read at once from all of them: rows inside a tensor may begin anywhere.
template <class... P>
bool aligned(const P*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % 16 == 0) && ...);
}

template <class T, int kSize, class F>
void map_packs(const void* x, const void* y, void* z, int64_t n, F f, cudaStream_t stream) {
  launch(KVCAL_KERNEL(map_kernel<T, kSize, F>), dim3(n_blocks(n, kThreads * kSize)), dim3(kThreads), 0, stream,
         static_cast<const T*>(x), static_cast<const T*>(y), static_cast<T*>(z), n, f);
}

template <class T, class F>
void map(const void* x, const void* y, void* z, int64_t n, F f, cudaStream_t stream) {
  if (aligned(x, y, z))
    map_packs<T, 16 / sizeof(T)>(x, y, z, n, f, stream);
  else
    map_packs<T, 1>(x, y, z, n, f, stream);
}

template <class U>
void take(const void* from, void* to, const int64_t* rows, int64_t n_rows, int64_t row_bytes, cudaStream_t stream) {
  const int64_t units = row_bytes / static_cast<int64_t>(sizeof(U));
  launch(KVCAL_KERNEL(take_rows_kernel<U>), dim3(n_blocks(n_rows, 1)), dim3(units < 128 ? 32 : 128), 0, stream,
         static_cast<const U*>(from), static_cast<U*>(to), rows, units);
}

}  // namespace

// ---------------------------------------------------------------- launchers

void add(DType t, const void* x, const void* y, void* z, int64_t n, cudaStream_t stream) {
  visit_activation(t, [&](auto tag) { map<decltype(tag)>(x, y, z, n, Add(), stream); });
}

void silu_mul(DType t, const void* gate, const void* up, void* z, int64_t n, cudaStream_t stream) {
  visit_activation(t, [&](auto tag) {
    using T = decltype(tag);
    map<T>(gate, up, z, n, SiluMul<T>(), stream);
  });
}

void silu_mul_halves(DType t, const void* gate_up, void* z, int64_t rows, int64_t width, cudaStream_t stream) {
  visit_activation(t, [&](auto tag) {
    using T = decltype(tag);
    const auto start = [&]<int kSize>() {
      launch(KVCAL_KERNEL(silu_mul_halves_kernel<T, kSize>), dim3(n_blocks(rows * width, kThreads * kSize)),
             dim3(kThreads), 0, stream, static_cast<const T*>(gate_up), static_cast<T*>(z), rows * width, width);
    };
    constexpr int kVector = 16 / sizeof(T);
    if (width % kVector == 0 && aligned(gate_up, z))
      start.template operator()<kVector>();
    else
      start.template operator()<1>();
  });
}

void sigmoid_mul(DType t, const void* x, const void* gate, void* z, int64_t n, cudaStream_t stream) {
  visit_activation(t, [&](auto tag) {
    using T = decltype(tag);
    map<T>(x, gate, z, n, SigmoidMul<T>(), stream);
  });
}

void sigmoid_mul_rows(DType t, const void* x, const void* gate, void* z, int64_t rows, int64_t width,
                      cudaStream_t stream) {
  visit_activation(t, [&](auto tag) {
    using T = decltype(tag);
    launch(KVCAL_KERNEL(sigmoid_mul_rows_kernel<T>), dim3(n_blocks(rows * width, kThreads)), dim3(kThreads), 0, stream,
           static_cast<const T*>(x), static_cast<const T*>(gate), static_cast<T*>(z), rows * width, width);
  });
}

void take_rows(const void* from, void* to, const int64_t* rows, int64_t n_rows, int64_t row_bytes,
               cudaStream_t stream) {
  if (row_bytes % 16 == 0 && aligned(from, to))
    take<uint4>(from, to, rows, n_rows, row_bytes, stream);
  else if (row_bytes % 2 == 0)
    take<uint16_t>(from, to, rows, n_rows, row_bytes, stream);
  else
    take<uint8_t>(from, to, rows, n_rows, row_bytes, stream);
}

void delta_gates(DType t, const DeltaGateArrays& arrays, int64_t tokens, int64_t heads, cudaStream_t stream) {
  visit_activation(t, [&](auto tag) {
    using T = decltype(tag);
    launch(KVCAL_KERNEL(delta_gates_kernel<T>), dim3(n_blocks(tokens * heads, kThreads)), dim3(kThreads), 0, stream,
           static_cast<const T*>(arrays.a), static_cast<const T*>(arrays.b), arrays.a_log, arrays.dt_bias, arrays.g,
           arrays.beta, tokens * heads, heads);
  });
}

}  // namespace kvcal::cuda
