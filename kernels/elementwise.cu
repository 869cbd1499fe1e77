// Ops that treat every element, or row, alone, and copies of rows. They move bytes.
#include "kernels/device/map.cuh"
#include "kernels/kernels.h"
#include "ops/visit_activation.h"

namespace kvcal::cuda {
namespace {

constexpr int kThreads = 256;

struct Add {
  __device__ float operator()(float x, float y) const { return x + y; }
};
struct Multiply {
  __device__ float operator()(float x, float y) const { return x * y; }
};
struct Scale {
  float factor;
  __device__ float operator()(float x) const { return x * factor; }
};
struct Softcap {
  float c;
  __device__ float operator()(float x) const { return c * tanhf(x / c); }
};

struct Clamp {
  ClampBounds to;
  __device__ float operator()(float x) const {
    return x > to.most ? to.most : x < to.least ? to.least : x;
  }  // NaN stays
};

/// The reference framework rounds the sigmoid before the product.
template <class T>
struct SigmoidMul {
  __device__ float operator()(float x, float gate) const { return x * rounded_to<T>(sigmoid(gate)); }
};

/// A row of `units` units of U, one block row of threads each.
template <class U>
__global__ void take_rows_kernel(const U* __restrict__ from, U* __restrict__ to, const int64_t* __restrict__ rows,
                                 int64_t units) {
  const int64_t i = blockIdx.x;
  from += rows[i] * units;
  to += i * units;
  for (int64_t u = threadIdx.x; u < units; u += blockDim.x) to[u] = from[u];
}

/// Rows of n units of a, each followed by m units of a row of b; a warp each.
template <class U>
__global__ void join_kernel(const U* __restrict__ a, const U* __restrict__ b, U* __restrict__ to, int64_t rows,
                            int64_t n, int64_t m, int64_t sharing) {
  const int64_t row = row_of_thread();
  if (row >= rows) return;
  const int64_t shared = static_cast<unsigned>(row) / static_cast<unsigned>(sharing);
  a += row * n;
  b += shared * m;
  to += row * (n + m);
  for (int64_t i = threadIdx.x; i < n + m; i += kWarp) to[i] = i < n ? a[i] : b[i - n];
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
  beta[i] = exact_sigmoid(widen(b[i]));
}

/// Whether 16 bytes can be read at once from all of them: rows inside a tensor may begin anywhere.
template <class... P>
bool aligned(const P*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % 16 == 0) && ...);
}

template <class U>
void take(const void* from, void* to, const int64_t* rows, int64_t n_rows, int64_t row_bytes, cudaStream_t stream) {
  const int64_t units = row_bytes / static_cast<int64_t>(sizeof(U));
  launch(KVCAL_KERNEL(take_rows_kernel<U>), dim3(n_blocks(n_rows, 1)), dim3(units < 128 ? 32 : 128), 0, stream,
         static_cast<const U*>(from), static_cast<U*>(to), rows, units);
}

template <class U>
void join_units(const Joined& j, cudaStream_t stream) {
  const int64_t n = j.a_bytes / static_cast<int64_t>(sizeof(U)), m = j.b_bytes / static_cast<int64_t>(sizeof(U));
  with_rows<kWarp>(j.rows, true, [&]<int kRowThreads, bool kWhole>(const dim3& grid, const dim3& block) {
    launch(KVCAL_KERNEL(join_kernel<U>), grid, block, 0, stream, static_cast<const U*>(j.a), static_cast<const U*>(j.b),
           static_cast<U*>(j.to), j.rows, n, m, j.sharing);
  });
}

}  // namespace

// ---------------------------------------------------------------- launchers

void add(DType t, const void* x, const void* y, void* z, int64_t n, cudaStream_t stream) {
  visit_activation(t, [&]<class T>(T) { map_pair<T, T>(x, y, z, n, Add(), stream); });
}

void scale(DType t, const void* x, float factor, void* z, int64_t n, cudaStream_t stream) {
  visit_activation(t, [&]<class T>(T) { map<T>(x, z, n, Scale{factor}, stream); });
}

void softcap(DType t, const void* x, float c, void* z, int64_t n, cudaStream_t stream) {
  visit_activation(t, [&]<class T>(T) { map<T>(x, z, n, Softcap{c}, stream); });
}

void clamp(DType t, const void* x, ClampBounds bounds, void* z, int64_t n, cudaStream_t stream) {
  visit_activation(t, [&]<class T>(T) { map<T>(x, z, n, Clamp{bounds}, stream); });
}

void mul(DType t, const void* x, const void* y, DType y_type, void* z, int64_t n, cudaStream_t stream) {
  visit_activation(t, [&]<class T>(T) {
    visit_activation(y_type, [&]<class Y>(Y) { map_pair<T, Y>(x, y, z, n, Multiply(), stream); });
  });
}

void mul_rows(DType t, const void* x, const void* y, DType y_type, void* z, const Rows& rows, cudaStream_t stream) {
  visit_activation(t, [&]<class T>(T) {
    visit_activation(y_type, [&]<class Y>(Y) { map_rows<T, Y>(x, y, z, rows, Multiply(), stream); });
  });
}

void sigmoid_mul(DType t, const void* x, const void* gate, void* z, int64_t n, cudaStream_t stream) {
  visit_activation(t, [&]<class T>(T) { map_pair<T, T>(x, gate, z, n, SigmoidMul<T>(), stream); });
}

void sigmoid_mul_rows(DType t, const void* x, const void* gate, void* z, const Rows& rows, cudaStream_t stream) {
  visit_activation(t, [&]<class T>(T) { map_rows<T, T>(x, gate, z, rows, SigmoidMul<T>(), stream); });
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

void join(const Joined& j, cudaStream_t stream) {
  if (j.a_bytes % 16 == 0 && j.b_bytes % 16 == 0 && aligned(j.a, j.b, j.to))
    join_units<uint4>(j, stream);
  else
    join_units<uint16_t>(j, stream);  // what every activation dtype is made of
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
