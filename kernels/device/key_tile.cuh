// A block of 64 keys against 64 rows, of queries or of their heads, in bf16 on tensor cores: four warps with 16 rows
// each.
#pragma once

#include "kernels/device/mma.cuh"
#include "kernels/device/real.cuh"
#include "kernels/device/reduce.cuh"

namespace kvcal::cuda {

constexpr int kKeys = 64;  // keys of a block
constexpr int kWarps = 4;
constexpr int kRows = 64;  // of a tile
constexpr int kSkew = 8;   // elements between rows in shared memory: the 8 rows of a matrix lie in different banks

/// Begins to copy rows [first, first + 64) of a [n, stride] matrix, `dim` columns, into a tile of kDim columns; what is
/// outside becomes zero.
template <int kDim>
__device__ void load_tile(bf16* tile, const bf16* from, int64_t first, int64_t n, int64_t stride, int dim) {
  constexpr int kChunks = kDim / 8;  // of 16 bytes
  for (int i = static_cast<int>(threadIdx.x); i < kKeys * kChunks; i += kWarps * kWarp) {
    const int row = i / kChunks, column = i % kChunks * 8;
    bf16* to = tile + row * (kDim + kSkew) + column;
    const bool inside = first + row < n && column < dim;
    const bf16* source = inside ? from + (first + row) * stride + column : from;
    if (dim % 8 == 0) {  // then all rows are aligned
      copy_async(to, source, inside ? 16 : 0);
    } else {
      for (int c = 0; c < 8; ++c) to[c] = inside && column + c < dim ? source[c] : bf16{0};
    }
  }
}

/// Products of a warp's 16 rows with the 64 keys: tile n, registers as multiply_add has them.
template <int kDim>
__device__ void multiply_keys(float (&logits)[kKeys / 8][4], const bf16* queries, const bf16* keys) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  constexpr int kStride = kDim + kSkew;
  const bf16* query = queries + (warp * 16 + lane % 16) * kStride + lane / 16 * 8;
  const bf16* key = keys + (lane / 16 * 8 + lane % 8) * kStride + lane / 8 % 2 * 8;
#pragma unroll
  for (int n = 0; n < kKeys / 8; ++n)
    for (int i = 0; i < 4; ++i) logits[n][i] = 0.0f;
#pragma unroll
  for (int d = 0; d < kDim; d += 16) {
    uint32_t a[4];
    load_matrices(a, query + d);
#pragma unroll
    for (int n = 0; n < kKeys / 8; n += 2) {
      uint32_t b[4];
      load_matrices(b, key + n * 8 * kStride + d);
      multiply_add(logits[n], a, {b[0], b[1]});
      multiply_add(logits[n + 1], a, {b[2], b[3]});
    }
  }
}

}  // namespace kvcal::cuda
