// Gated delta rule and state-space duality (Mamba-2) in chunks of 64 absolute positions (32 where shared memory is
// short), in f32: the formulas of lib/ops/cpu/recurrence.cpp, which has them in its opening comment. For what
// recurrence_tiles.cu does not take: f32, odd widths, small shared memory. One block per (slice of value columns, value
// head, span): a column of the state depends on no other, so slices are independent, and the state of one stays in
// shared memory from chunk to chunk.
#include "kernels/delta_tiles.h"
#include "kernels/device/real.cuh"
#include "kernels/device/shared.cuh"
#include "kernels/kernels.h"
#include "kernels/recurrence_tile.h"
#include "kernels/runtime/launch.h"
#include "ops/visit_activation.h"

namespace kvcal::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kMostRows = 64;  // of a chunk

struct Scalars {
  double decay_sum[kMostRows];                                      // G
  float from_start[kMostRows], to_end[kMostRows], rate[kMostRows];  // e^G, e^(G_last - G), β or Δ
};

/// The block's shared memory, in this order.
template <class T>
struct Layout {
  Scalars* scalars;
  int width;             // of a row of the products: columns of them lie in different banks
  float* state;          // [dk, columns]
  float* corrections;    // [rows, columns]: right-hand side, then E
  float *a, *attention;  // [rows, width]
  T *q, *k;              // [rows, dk]

  __host__ __device__ static size_t bytes(int dk, const RecurrenceTile& t) {
    return sizeof(Scalars) +
           sizeof(float) * static_cast<size_t>((dk + t.rows) * t.columns + 2 * t.rows * (t.rows + 1)) +
           sizeof(T) * static_cast<size_t>(2 * t.rows * dk);
  }
  __device__ Layout(void* memory, int dk, const RecurrenceTile& t) {
    width = t.rows + 1;
    scalars = static_cast<Scalars*>(memory);
    state = reinterpret_cast<float*>(scalars + 1);
    corrections = state + dk * t.columns;
    a = corrections + t.rows * t.columns;
    attention = a + t.rows * width;
    q = reinterpret_cast<T*>(attention + t.rows * width);
    k = q + t.rows * dk;
  }
};

/// Loads rows [row, row + n) of q and k, and what the gates say.
template <class T>
__device__ void load_chunk(const Layout<T>& m, const RecurrenceArrays& arrays, const RecurrenceShape& s, int64_t row,
                           int n, int64_t head) {
  const int dk = static_cast<int>(s.dk);
  const int64_t key_head = head / (s.n_value_heads / s.n_key_heads);
  for (int i = static_cast<int>(threadIdx.x); i < n * dk; i += kThreads) {
    const int64_t from = ((row + i / dk) * s.n_key_heads + key_head) * dk + i % dk;
    m.q[i] = static_cast<const T*>(arrays.q)[from];
    m.k[i] = static_cast<const T*>(arrays.k)[from];
  }
  if (threadIdx.x == 0) {  // in double and in order: large sums must not cost small ones their digits
    double sum = 0.0;
    for (int i = 0; i < n; ++i) {
      sum += static_cast<double>(arrays.g[(row + i) * s.n_value_heads + head]);
      m.scalars->decay_sum[i] = sum;
      m.scalars->rate[i] = arrays.rate[(row + i) * s.n_value_heads + head];
    }
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < n; i += kThreads) {
    const double g = m.scalars->decay_sum[i];
    m.scalars->from_start[i] = expf(static_cast<float>(g));
    m.scalars->to_end[i] = expf(static_cast<float>(m.scalars->decay_sum[n - 1] - g));
  }
}

/// A (strictly lower) and the decayed q kᵀ (lower). Decay only for j <= i: above it would overflow.
template <class T>
__device__ void products(const Layout<T>& m, int dk, int n, float scale) {
  for (int index = static_cast<int>(threadIdx.x); index < n * n; index += kThreads) {
    const int i = index / n, j = index % n;
    if (j > i) continue;
    float kk = 0.0f, qk = 0.0f;
    for (int d = 0; d < dk; ++d) {
      const float key = widen(m.k[j * dk + d]);
      kk += widen(m.k[i * dk + d]) * key;
      qk += widen(m.q[i * dk + d]) * key;
    }
    const float decay = expf(static_cast<float>(m.scalars->decay_sum[i] - m.scalars->decay_sum[j]));
    m.a[i * m.width + j] = m.scalars->rate[i] * decay * kk;
    m.attention[i * m.width + j] = scale * decay * qk;
  }
}

/// Row i of x [rows, dk] times column c of the state.
template <class T>
__device__ float times_state(const T* x, const float* state, int i, int c, int dk, int columns) {
  float sum = 0.0f;
  for (int d = 0; d < dk; ++d) sum += widen(x[i * dk + d]) * state[d * columns + c];
  return sum;
}

/// (I + A) E = β (V - e^G (K S)): a thread per column goes down the rows. Without corrections E = Δ V.
template <class T>
__device__ void solve(const Layout<T>& m, const T* v, int64_t v_stride, const RecurrenceShape& s, int n, int columns,
                      int used) {
  for (int index = static_cast<int>(threadIdx.x); index < n * columns; index += kThreads) {
    const int i = index / columns, c = index % columns;
    float e = c < used ? widen(v[i * v_stride + c]) : 0.0f;
    if (s.corrected) e -= m.scalars->from_start[i] * times_state(m.k, m.state, i, c, static_cast<int>(s.dk), columns);
    m.corrections[index] = m.scalars->rate[i] * e;
  }
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.x); s.corrected && c < columns; c += kThreads)
    for (int i = 1; i < n; ++i) {
      float e = m.corrections[i * columns + c];
      for (int j = 0; j < i; ++j) e -= m.a[i * m.width + j] * m.corrections[j * columns + c];
      m.corrections[i * columns + c] = e;
    }
  __syncthreads();
}

template <class T>
__device__ void write_output(const Layout<T>& m, const T* v, T* y, int64_t stride, const RecurrenceShape& s, int n,
                             int columns, int used, float skip) {
  const int dk = static_cast<int>(s.dk);
  for (int index = static_cast<int>(threadIdx.x); index < n * used; index += kThreads) {
    const int i = index / used, c = index % used;
    float o = s.scale * m.scalars->from_start[i] * times_state(m.q, m.state, i, c, dk, columns);
    for (int j = 0; j <= i; ++j) o += m.attention[i * m.width + j] * m.corrections[j * columns + c];
    if (skip != 0.0f) o += skip * widen(v[i * stride + c]);
    y[i * stride + c] = narrow<T>(o);
  }
}

template <class T>
__device__ void advance_state(const Layout<T>& m, int dk, int n, int columns) {
  const float decay = m.scalars->from_start[n - 1];
  for (int index = static_cast<int>(threadIdx.x); index < dk * columns; index += kThreads) {
    const int d = index / columns, c = index % columns;
    float x = m.state[index] * decay;
    for (int i = 0; i < n; ++i) x += widen(m.k[i * dk + d]) * m.scalars->to_end[i] * m.corrections[i * columns + c];
    m.state[index] = x;
  }
}

template <class T>
__global__ void recurrence_kernel(RecurrenceArrays arrays, const RecurrenceSpan* __restrict__ spans, RecurrenceShape s,
                                  RecurrenceTile tile) {
  const int columns = tile.columns;
  const RecurrenceSpan span = spans[blockIdx.z];
  const int64_t head = blockIdx.y, column0 = int64_t{blockIdx.x} * columns;
  const int dk = static_cast<int>(s.dk);
  const int used = s.dv - column0 < columns ? static_cast<int>(s.dv - column0) : columns;
  const Layout<T> m(dynamic_shared<double>(), dk, tile);
  float* kept = span.state ? span.state + head * s.dk * s.dv + column0 : nullptr;
  for (int i = static_cast<int>(threadIdx.x); i < dk * columns; i += kThreads)
    m.state[i] = kept && i % columns < used ? kept[i / columns * s.dv + i % columns] : 0.0f;
  const float skip = arrays.skip ? arrays.skip[head] : 0.0f;
  const int64_t stride = s.n_value_heads * s.dv;
  for (int64_t t = 0; t < span.n_tokens;) {
    const int64_t room = tile.rows - (span.first_position + t) % tile.rows;
    const int n = static_cast<int>(room < span.n_tokens - t ? room : span.n_tokens - t);
    const int64_t at = (span.row + t) * stride + head * s.dv + column0;
    __syncthreads();  // the state is there, and the previous chunk is no longer needed
    load_chunk(m, arrays, s, span.row + t, n, head);
    __syncthreads();
    products(m, dk, n, s.scale);
    const T* v = static_cast<const T*>(arrays.v) + at;
    solve(m, v, stride, s, n, columns, used);
    write_output(m, v, static_cast<T*>(arrays.y) + at, stride, s, n, columns, used, skip);
    __syncthreads();
    advance_state(m, dk, n, columns);
    t += n;
  }
  __syncthreads();
  if (!kept) return;
  for (int i = static_cast<int>(threadIdx.x); i < dk * columns; i += kThreads)
    if (i % columns < used) kept[i / columns * s.dv + i % columns] = m.state[i];
}

/// Δ = softplus(dt + dt_bias), g = -exp(A_log) Δ; in double, as the gates of the delta rule.
template <class T>
__global__ void ssd_gates_kernel(const T* __restrict__ dt, const float* __restrict__ a_log,
                                 const float* __restrict__ dt_bias, float* __restrict__ g, float* __restrict__ rate,
                                 int64_t n, int64_t heads) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n) return;
  const int64_t h = i % heads;
  const double step = softplus(static_cast<double>(widen(dt[i]) + dt_bias[h]));
  rate[i] = static_cast<float>(step);
  g[i] = static_cast<float>(-exp(static_cast<double>(a_log[h])) * step);
}

}  // namespace

// ---------------------------------------------------------------- launchers

void recurrence(DType t, const RecurrenceArrays& arrays, const RecurrenceSpan* spans, const RecurrenceShape& s,
                size_t shared_limit, cudaStream_t stream) {
  if (s.n_spans == 0 || s.dv == 0) return;
  if (t == DType::BF16 && (recurrence_tiles(arrays, spans, s, shared_limit, stream) ||
                           (s.corrected && delta_tiles(Gates::ByHead, arrays, spans, s, shared_limit, stream))))
    return;
  visit_activation(t, [&](auto tag) {
    using T = decltype(tag);
    const auto bytes = [&](const RecurrenceTile& part) { return Layout<T>::bytes(static_cast<int>(s.dk), part); };
    const RecurrenceTile tile = tile_that_fits(s, shared_limit, bytes);
    launch(KVCAL_KERNEL(recurrence_kernel<T>),
           dim3(n_blocks(s.dv, tile.columns), n_blocks(s.n_value_heads, 1), n_blocks(s.n_spans, 1)), dim3(kThreads),
           bytes(tile), stream, arrays, spans, s, tile);
  });
}

void ssd_gates(DType t, const void* dt, const float* a_log, const float* dt_bias, float* g, float* rate, int64_t tokens,
               int64_t heads, cudaStream_t stream) {
  visit_activation(t, [&](auto tag) {
    using T = decltype(tag);
    launch(KVCAL_KERNEL(ssd_gates_kernel<T>), dim3(n_blocks(tokens * heads, kThreads)), dim3(kThreads), 0, stream,
           static_cast<const T*>(dt), a_log, dt_bias, g, rate, tokens * heads, heads);
  });
}

}  // namespace kvcal::cuda
