// From the columns of a fused projection to heads: norm and rotary embedding in one pass, one row of threads a head.
#include "kernels/device/row.cuh"
#include "kernels/kernels.h"
#include "kernels/runtime/launch.h"
#include "ops/visit_activation.h"

namespace kvcal::cuda {
namespace {

/// A head where it is, and its norm: 1 without one.
template <class T, class G>
struct Head {
  const T* x;
  const G* gain;  // null: no norm
  float inverse;
  bool vectors;

  /// n values from column `first` on, normed.
  __device__ void read(float (&v)[kPack], int64_t first, int64_t n) const {
    read_pack(v, x, first, n, vectors);
    if (!gain) return;
#pragma unroll
    for (int j = 0; j < kPack; ++j)  // the bound is a constant: the pack stays in registers
      if (j < n) v[j] = rounded_to<T>(with_gain<T>(v[j] * inverse, gain[first + j]));
  }

  /// Pairs [first, first + n).
  __device__ void read_pairs(float (&a)[kPack], float (&b)[kPack], int64_t first, int64_t n,
                             const HeadsShape& s) const {
    if (!s.interleaved) {
      read(a, first, n);
      read(b, s.half + first, n);
      return;
    }
    float low[kPack], high[kPack];
    const int64_t n_low = 2 * n < kPack ? 2 * n : kPack;
    read(low, 2 * first, n_low);
    read(high, 2 * first + n_low, 2 * n - n_low);
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      a[j] = j < kPack / 2 ? low[2 * j] : high[2 * j - kPack];
      b[j] = j < kPack / 2 ? low[2 * j + 1] : high[2 * j + 1 - kPack];
    }
  }
};

template <class T>
__device__ void write_pairs(const float (&a)[kPack], const float (&b)[kPack], T* y, int64_t first, int64_t n,
                            const HeadsShape& s, bool vectors) {
  if (!s.interleaved) {
    write_pack(a, y, first, n, vectors);
    write_pack(b, y, s.half + first, n, vectors);
    return;
  }
#pragma unroll
  for (int j = 0; j < kPack; ++j) {
    if (j >= n) break;
    y[2 * (first + j)] = narrow<T>(a[j]);
    y[2 * (first + j) + 1] = narrow<T>(b[j]);
  }
}

template <class T, class G, int kRowThreads>
__global__ void heads_kernel(const T* __restrict__ from, const T* __restrict__ table, HeadsParts parts, HeadsShape s) {
  const int64_t row = row_of_thread();
  if (row >= s.tokens * s.heads) return;
  const int64_t token = row / s.heads, head = row % s.heads;
  int p = 0;
  while (head >= parts.part[p].first_head + parts.part[p].n_heads) ++p;
  const HeadsArrays& part = parts.part[p];
  const int64_t own = head - part.first_head, dim = part.head_dim;
  Head<T, G> h{from + token * s.columns + part.first_column + own * dim, static_cast<const G*>(part.gain), 1.0f,
               part.vectors};
  if (part.gain) h.inverse = inverse_rms(sum_of_squares<kRowThreads>(h.x, dim, part.vectors), dim, s.eps);
  T* y = static_cast<T*>(part.to) + (token * part.n_heads + own) * dim;
  const int64_t half = part.turned ? s.half : 0;
  const T* cosine = table + token * 2 * s.half;
  each_pack<kRowThreads>(half, [&](int64_t i, int64_t n) {
    float a[kPack], b[kPack], c[kPack], d[kPack], first[kPack], second[kPack];
    h.read_pairs(a, b, i, n, s);
    read_pack(c, cosine, i, n, part.vectors);
    read_pack(d, cosine, s.half + i, n, part.vectors);
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      first[j] = turned_first(a[j], b[j], c[j], d[j]);
      second[j] = turned_second(a[j], b[j], c[j], d[j]);
    }
    write_pairs(first, second, y, i, n, s, part.vectors);
  });
  each_pack<kRowThreads>(dim - 2 * half, [&](int64_t i, int64_t n) {
    float v[kPack];
    h.read(v, 2 * half + i, n);
    write_pack(v, y, 2 * half + i, n, part.vectors);
  });
}

}  // namespace

// ---------------------------------------------------------------- launcher

void project_heads(DType t, const void* from, const void* table, DType gain_type, HeadsParts parts, const HeadsShape& s,
                   cudaStream_t stream) {
  int64_t widest = 0;
  for (HeadsArrays& p : parts.part) {
    p.vectors = s.columns % kPack == 0 && p.first_column % kPack == 0 && (!p.turned || s.half % kPack == 0) &&
                rows_in_vectors(p.head_dim, from, table, p.to);
    if (p.gain || widest == 0) widest = p.head_dim;
  }
  visit_activation(t, [&](auto tag) {
    visit_activation(gain_type, [&]<class G>(G) {
      using T = decltype(tag);
      with_row_threads(s.tokens * s.heads, widest, [&]<int kRowThreads>(const dim3& grid, const dim3& block) {
        launch(KVCAL_KERNEL(heads_kernel<T, G, kRowThreads>), grid, block, 0, stream, static_cast<const T*>(from),
               static_cast<const T*>(table), parts, s);
      });
    });
  });
}

}  // namespace kvcal::cuda
