// What the kernels of grouped products share: which rows a block has, and how its results are written.
#pragma once

#include "kernels/device/real.cuh"
#include "kernels/device/reduce.cuh"
#include "kernels/kernels.h"

namespace kvcal::cuda {

/// Where a block's tile of rows begins. Group g's tiles are counted from first[g] / kRows + g on: that is beyond those
/// of the group before, and needs no sums over groups; a few are empty.
struct TileRows {
  int64_t group, begin, end;  // rows of the problem; empty when begin >= end

  template <int kRows>
  __device__ static TileRows of(int64_t tile, const GroupedProduct& p) {
    if (!p.first) {
      const int64_t tiles = (p.rows + kRows - 1) / kRows;
      return {tile / tiles, tile % tiles * kRows, p.rows};
    }
    int64_t low = 0, high = p.n_groups;
    while (high - low > 1) {
      const int64_t middle = (low + high) / 2;
      (p.first[middle] / kRows + middle <= tile ? low : high) = middle;
    }
    const int64_t first = p.first[low];
    return {low, first + (tile - (first / kRows + low)) * kRows, p.first[low + 1]};
  }
};

/// How many tiles of rows there may be.
inline int64_t n_tiles(const GroupedProduct& p, int64_t rows_of_tile) {
  return p.first ? p.rows / rows_of_tile + p.n_groups : (p.rows + rows_of_tile - 1) / rows_of_tile * p.n_groups;
}

/// Row `row` of the problem, of the group's part of x.
template <class T>
__device__ const T* row_of_x(const GroupedProduct& p, int64_t group, int64_t row) {
  return static_cast<const T*>(p.x) + (p.row_of ? p.row_of[row] : row) * p.x_stride + group * p.x_group;
}

__device__ inline float bias_of(const GroupWeight& w, int64_t column) {
  if (!w.bias) return 0.0f;
  return w.bias_bf16 ? widen(static_cast<const bf16*>(w.bias)[column]) : static_cast<const float*>(w.bias)[column];
}

/// Writes two neighbouring values of a row, of which the second may be beyond it.
template <class Y>
__device__ inline void store_pair(const GroupedProduct& p, const GroupWeight& weight, Y* y, int64_t column, float left,
                                  float right) {
  const bool both = column + 1 < p.out;
  Pack<Y, 2> pair;
  pair.values[0] = narrow<Y>(left + bias_of(weight, column));
  pair.values[1] = narrow<Y>(right + (both ? bias_of(weight, column + 1) : 0.0f));
  if (p.pairs) {
    *reinterpret_cast<Pack<Y, 2>*>(y + column) = pair;
  } else {
    y[column] = pair.values[0];
    if (both) y[column + 1] = pair.values[1];
  }
}

}  // namespace kvcal::cuda
