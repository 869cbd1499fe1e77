// From the columns of a fused projection to heads: norm and rotary embedding in one pass, one row of threads a head.
#include "kernels/device/row.cuh"
#include "kernels/kernels.h"
#include "kernels/runtime/launch.h"
#include "ops/visit_activation.h"

namespace kvcal::cuda {
namespace {

/// A head where it is, and its norm: 1 without one.
template <class T, class G, bool kWhole>
struct Head {
  const T* x;
  const G* gain;  // null: no norm
  float inverse;

  __device__ void read(float (&v)[kPack], const Part<kWhole>& part) const {
    read_pack(v, x, part);
    if (!gain) return;
    float g[kPack];
    read_pack(g, gain, part);
#pragma unroll
    for (int j = 0; j < kPack; ++j) v[j] = rounded_to<T>(with_gain<T, G>(v[j] * inverse, g[j]));
  }

  /// Both values of a part's pairs.
  __device__ void read_pairs(float (&a)[kPack], float (&b)[kPack], const Part<kWhole>& part,
                             const HeadsShape& s) const {
    if (!s.interleaved) {
      read(a, part);
      read(b, {s.half + part.first, part.n});
      return;
    }
    float low[kPack], high[kPack];
    const int64_t n_low = 2 * part.n < kPack ? 2 * part.n : kPack;
    read(low, {2 * part.first, n_low});
    read(high, {2 * part.first + n_low, 2 * part.n - n_low});
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      a[j] = j < kPack / 2 ? low[2 * j] : high[2 * j - kPack];
      b[j] = j < kPack / 2 ? low[2 * j + 1] : high[2 * j + 1 - kPack];
    }
  }
};

template <class T, bool kWhole>
__device__ void write_pairs(const float (&a)[kPack], const float (&b)[kPack], T* y, const Part<kWhole>& part,
                            const HeadsShape& s) {
  if (!s.interleaved) {
    write_pack(a, y, part);
    write_pack(b, y, Part<kWhole>{s.half + part.first, part.n});
    return;
  }
  float low[kPack], high[kPack];
#pragma unroll
  for (int j = 0; j < kPack / 2; ++j) {
    low[2 * j] = a[j];
    low[2 * j + 1] = b[j];
    high[2 * j] = a[kPack / 2 + j];
    high[2 * j + 1] = b[kPack / 2 + j];
  }
  const int64_t n_low = 2 * part.n < kPack ? 2 * part.n : kPack;
  write_pack(low, y, Part<kWhole>{2 * part.first, n_low});
  write_pack(high, y, Part<kWhole>{2 * part.first + n_low, 2 * part.n - n_low});
}

template <class T, class G, int kRowThreads, bool kWhole>
__global__ void heads_kernel(const T* __restrict__ from, const T* __restrict__ table, HeadsParts parts, HeadsShape s) {
  const int64_t row = row_of_thread();
  if (row >= s.tokens * s.heads) return;
  const unsigned heads = static_cast<unsigned>(s.heads);
  const int64_t token = static_cast<unsigned>(row) / heads, head = static_cast<unsigned>(row) % heads;
  int p = 0;
  while (head >= parts.part[p].first_head + parts.part[p].n_heads) ++p;
  const HeadsArrays& part = parts.part[p];
  const int64_t own = head - part.first_head, dim = part.head_dim;
  Head<T, G, kWhole> h{from + token * s.columns + part.first_column + own * dim, static_cast<const G*>(part.gain),
                       1.0f};
  if (part.gain) h.inverse = inverse_rms(sum_of_squares<kRowThreads, kWhole>(h.x, dim), dim, s.eps);
  T* y = static_cast<T*>(part.to) + (token * part.n_heads + own) * dim;
  const int64_t half = part.turned ? s.half : 0;
  const T* cosine = table + token * 2 * s.half;
  each_pack<kRowThreads, kWhole>(half, [&](const auto& pairs) {
    float a[kPack], b[kPack], c[kPack], d[kPack], first[kPack], second[kPack];
    h.read_pairs(a, b, pairs, s);
    read_pack(c, cosine, pairs);
    read_pack(d, cosine + s.half, pairs);
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      first[j] = turned_first(a[j], b[j], c[j], d[j]);
      second[j] = turned_second(a[j], b[j], c[j], d[j]);
    }
    write_pairs(first, second, y, pairs, s);
  });
  each_pack<kRowThreads, kWhole>(dim - 2 * half, [&](const auto& rest) {
    const Part<kWhole> columns{2 * half + rest.first, rest.n};
    float v[kPack];
    h.read(v, columns);
    write_pack(v, y, columns);
  });
}

}  // namespace

// ---------------------------------------------------------------- launcher

void project_heads(DType t, const void* from, const void* table, DType gain_type, const HeadsParts& parts,
                   const HeadsShape& s, cudaStream_t stream) {
  bool whole = s.columns % kPack == 0;
  int64_t widest = 0;
  for (const HeadsArrays& p : parts.part) {
    whole = whole && p.first_column % kPack == 0 && (!p.turned || s.half % kPack == 0) &&
            whole_parts(p.head_dim, from, table, p.gain, p.to);
    if (p.gain || widest == 0) widest = p.head_dim;
  }
  visit_activation(t, [&]<class T>(T) {
    visit_activation(gain_type, [&]<class G>(G) {
      with_row_threads(s.tokens * s.heads, widest, whole,
                       [&]<int kRowThreads, bool kWhole>(const dim3& grid, const dim3& block) {
                         launch(KVCAL_KERNEL(heads_kernel<T, G, kRowThreads, kWhole>), grid, block, 0, stream,
                                static_cast<const T*>(from), static_cast<const T*>(table), parts, s);
                       });
    });
  });
}

}  // namespace kvcal::cuda
