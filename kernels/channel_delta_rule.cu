// Gated delta rule with a decay for every channel of a key (Kimi delta attention), in chunks of 64 absolute positions,
// or of 32 where the device has little shared memory: recurrence.cu with e^g a vector. In a chunk, with G_i [dk] the
// sum of g up to row i and ⊙ along dk:
//
//   A_ij = β_i Σ_d k_id k_jd e^(G_id - G_jd), j < i;   (I + A) E = β (V - (e^G ⊙ K) S)
//   O = (e^G ⊙ Q) S + [ Σ_d q_id k_jd e^(G_id - G_jd), j <= i ] E;   S <- e^(G_last) S + (e^(G_last - G) ⊙ K)ᵀ E
//
// In f32, plain: for f32, for widths that delta_tiles.cu does not take, and for states that are rounded. One
// block per (slice of value columns, value head, span).
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

/// First the sum G, in double: large sums must not cost small ones their digits. Then what is made of it.
union Decay {
  double sum;
  struct {
    float from_start, to_end;  // e^G, e^(G_last - G)
  } factor;
};

/// The block's shared memory, in this order.
template <class T>
struct Layout {
  int width;             // of a row of the products: columns of them lie in different banks
  Decay* decay;          // [rows, dk]
  float* state;          // [dk, columns]
  float* corrections;    // [rows, columns]: right-hand side, then E
  float *a, *attention;  // [rows, width]
  float* rate;           // [rows]
  T *q, *k;              // [rows, dk]

  __host__ __device__ static size_t bytes(int dk, const RecurrenceTile& t) {
    return sizeof(Decay) * static_cast<size_t>(t.rows * dk) +
           sizeof(float) * static_cast<size_t>((dk + t.rows) * t.columns + 2 * t.rows * (t.rows + 1) + t.rows) +
           sizeof(T) * static_cast<size_t>(2 * t.rows * dk);
  }
  __device__ Layout(void* memory, int dk, const RecurrenceTile& t) {
    width = t.rows + 1;
    decay = static_cast<Decay*>(memory);
    state = reinterpret_cast<float*>(decay + t.rows * dk);
    corrections = state + dk * t.columns;
    a = corrections + t.rows * t.columns;
    attention = a + t.rows * width;
    rate = attention + t.rows * width;
    q = reinterpret_cast<T*>(rate + t.rows);
    k = q + t.rows * dk;
  }
};

/// Where a block is.
struct Place {
  int64_t head, key_head, column0;
  int dk, columns, used;  // used: columns that there are
};

template <class T>
__device__ void load_chunk(const Layout<T>& m, const RecurrenceArrays& arrays, const RecurrenceShape& s,
                           const Place& at, int64_t row, int n) {
  for (int i = static_cast<int>(threadIdx.x); i < n * at.dk; i += kThreads) {
    const int64_t from = ((row + i / at.dk) * s.n_key_heads + at.key_head) * at.dk + i % at.dk;
    m.q[i] = static_cast<const T*>(arrays.q)[from];
    m.k[i] = static_cast<const T*>(arrays.k)[from];
  }
  for (int i = static_cast<int>(threadIdx.x); i < n; i += kThreads)
    m.rate[i] = arrays.rate[(row + i) * s.n_value_heads + at.head];
  for (int d = static_cast<int>(threadIdx.x); d < at.dk; d += kThreads) {
    double sum = 0.0;
    for (int i = 0; i < n; ++i) {
      sum += static_cast<double>(arrays.g[((row + i) * s.n_value_heads + at.head) * at.dk + d]);
      m.decay[i * at.dk + d].sum = sum;
    }
  }
  __syncthreads();
}

/// A (strictly lower) and the decayed q kᵀ (lower). Decay only for j <= i: above it would overflow.
template <class T>
__device__ void products(const Layout<T>& m, int dk, int n, float scale) {
  for (int index = static_cast<int>(threadIdx.x); index < n * n; index += kThreads) {
    const int i = index / n, j = index % n;
    if (j > i) continue;
    float kk = 0.0f, qk = 0.0f;
    for (int d = 0; d < dk; ++d) {
      const float decay = expf(static_cast<float>(m.decay[i * dk + d].sum - m.decay[j * dk + d].sum));
      const float key = decay * widen(m.k[j * dk + d]);
      kk += widen(m.k[i * dk + d]) * key;
      qk += widen(m.q[i * dk + d]) * key;
    }
    m.a[i * m.width + j] = m.rate[i] * kk;
    m.attention[i * m.width + j] = scale * qk;
  }
  __syncthreads();
}

/// Sums become factors, a channel a thread.
template <class T>
__device__ void make_factors(const Layout<T>& m, int dk, int n) {
  for (int d = static_cast<int>(threadIdx.x); d < dk; d += kThreads) {
    const double last = m.decay[(n - 1) * dk + d].sum;
    for (int i = 0; i < n; ++i) {
      Decay& decay = m.decay[i * dk + d];
      const double sum = decay.sum;
      decay.factor = {expf(static_cast<float>(sum)), expf(static_cast<float>(last - sum))};
    }
  }
  __syncthreads();
}

/// Row i of e^G ⊙ x, x [rows, dk], times column c of the state.
template <class T>
__device__ float times_state(const Layout<T>& m, const T* x, int i, int c, const Place& at) {
  float sum = 0.0f;
  for (int d = 0; d < at.dk; ++d)
    sum += widen(x[i * at.dk + d]) * m.decay[i * at.dk + d].factor.from_start * m.state[d * at.columns + c];
  return sum;
}

template <class T>
__device__ void solve(const Layout<T>& m, const T* v, int64_t v_stride, const Place& at, int n) {
  for (int index = static_cast<int>(threadIdx.x); index < n * at.columns; index += kThreads) {
    const int i = index / at.columns, c = index % at.columns;
    const float x = c < at.used ? widen(v[i * v_stride + c]) : 0.0f;
    m.corrections[index] = m.rate[i] * (x - times_state(m, m.k, i, c, at));
  }
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.x); c < at.columns; c += kThreads)
    for (int i = 1; i < n; ++i) {
      float e = m.corrections[i * at.columns + c];
      for (int j = 0; j < i; ++j) e -= m.a[i * m.width + j] * m.corrections[j * at.columns + c];
      m.corrections[i * at.columns + c] = e;
    }
  __syncthreads();
}

template <class T>
__device__ void write_output(const Layout<T>& m, T* y, int64_t stride, float scale, const Place& at, int n) {
  for (int index = static_cast<int>(threadIdx.x); index < n * at.used; index += kThreads) {
    const int i = index / at.used, c = index % at.used;
    float o = scale * times_state(m, m.q, i, c, at);
    for (int j = 0; j <= i; ++j) o += m.attention[i * m.width + j] * m.corrections[j * at.columns + c];
    y[i * stride + c] = narrow<T>(o);
  }
  __syncthreads();
}

template <class T>
__device__ void advance_state(const Layout<T>& m, const Place& at, int n) {
  for (int index = static_cast<int>(threadIdx.x); index < at.dk * at.columns; index += kThreads) {
    const int d = index / at.columns, c = index % at.columns;
    float x = m.state[index] * m.decay[(n - 1) * at.dk + d].factor.from_start;
    for (int i = 0; i < n; ++i)
      x += widen(m.k[i * at.dk + d]) * m.decay[i * at.dk + d].factor.to_end * m.corrections[i * at.columns + c];
    m.state[index] = x;
  }
  __syncthreads();
}

template <class T>
__global__ void channel_delta_rule_kernel(RecurrenceArrays arrays, const RecurrenceSpan* __restrict__ spans,
                                          RecurrenceShape s, RecurrenceTile tile) {
  const RecurrenceSpan span = spans[blockIdx.z];
  const int columns = tile.columns;
  Place at{blockIdx.y, 0, int64_t{blockIdx.x} * columns, static_cast<int>(s.dk), columns, columns};
  at.key_head = at.head / (s.n_value_heads / s.n_key_heads);
  if (s.dv - at.column0 < columns) at.used = static_cast<int>(s.dv - at.column0);
  const Layout<T> m(dynamic_shared<double>(), at.dk, tile);
  float* kept = span.state ? span.state + at.head * s.dk * s.dv + at.column0 : nullptr;
  for (int i = static_cast<int>(threadIdx.x); i < at.dk * columns; i += kThreads)
    m.state[i] = kept && i % columns < at.used ? kept[i / columns * s.dv + i % columns] : 0.0f;
  const int64_t stride = s.n_value_heads * s.dv;
  for (int64_t t = 0; t < span.n_tokens;) {
    const int64_t room = tile.rows - (span.first_position + t) % tile.rows;
    const int n = static_cast<int>(room < span.n_tokens - t ? room : span.n_tokens - t);
    const int64_t value = (span.row + t) * stride + at.head * s.dv + at.column0;
    load_chunk(m, arrays, s, at, span.row + t, n);
    products(m, at.dk, n, s.scale);
    make_factors(m, at.dk, n);
    solve(m, static_cast<const T*>(arrays.v) + value, stride, at, n);
    write_output(m, static_cast<T*>(arrays.y) + value, stride, s.scale, at, n);
    advance_state(m, at, n);
    t += n;
  }
  if (!kept) return;
  for (int i = static_cast<int>(threadIdx.x); i < at.dk * columns; i += kThreads)
    if (i % columns < at.used) kept[i / columns * s.dv + i % columns] = m.state[i];
}

/// In double, as the CPU does it, the sum too.
template <class T>
__global__ void channel_delta_gates_kernel(const T* __restrict__ a, const T* __restrict__ b,
                                           const float* __restrict__ a_log, const float* __restrict__ dt_bias,
                                           float* __restrict__ g, float* __restrict__ beta, int64_t tokens,
                                           int64_t heads, int64_t dk) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x, channel = i % (heads * dk);
  if (i >= tokens * heads * dk) return;
  const double step = softplus(static_cast<double>(widen(a[i])) + static_cast<double>(dt_bias[channel]));
  g[i] = static_cast<float>(-exp(static_cast<double>(a_log[channel / dk])) * step);
  if (i % dk == 0) beta[i / dk] = exact_sigmoid(widen(b[i / dk]));
}

}  // namespace

// ---------------------------------------------------------------- launchers

void channel_delta_rule(DType t, const RecurrenceArrays& arrays, const RecurrenceSpan* spans, const RecurrenceShape& s,
                        size_t shared_limit, cudaStream_t stream) {
  if (s.n_spans == 0 || s.dv == 0) return;
  if (t == DType::BF16 && delta_tiles(Gates::ByChannel, arrays, spans, s, shared_limit, stream)) return;
  visit_activation(t, [&](auto tag) {
    using T = decltype(tag);
    const auto bytes = [&](const RecurrenceTile& part) { return Layout<T>::bytes(static_cast<int>(s.dk), part); };
    const RecurrenceTile tile = tile_that_fits(s, shared_limit, bytes);
    launch(KVCAL_KERNEL(channel_delta_rule_kernel<T>),
           dim3(n_blocks(s.dv, tile.columns), n_blocks(s.n_value_heads, 1), n_blocks(s.n_spans, 1)), dim3(kThreads),
           bytes(tile), stream, arrays, spans, s, tile);
  });
}

void channel_delta_gates(DType t, const DeltaGateArrays& arrays, int64_t tokens, int64_t heads, int64_t dk,
                         cudaStream_t stream) {
  visit_activation(t, [&](auto tag) {
    using T = decltype(tag);
    launch(KVCAL_KERNEL(channel_delta_gates_kernel<T>), dim3(n_blocks(tokens * heads * dk, kThreads)), dim3(kThreads),
           0, stream, static_cast<const T*>(arrays.a), static_cast<const T*>(arrays.b), arrays.a_log, arrays.dt_bias,
           arrays.g, arrays.beta, tokens, heads, dk);
  });
}

}  // namespace kvcal::cuda
