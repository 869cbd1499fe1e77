// Many products of one shape in one launch: every group of rows has a weight of its own (experts, heads). Which rows
// are whose is read on the device, so that nobody waits to learn it.
//
// Two kernels. grouped_tile_kernel: bf16 on tensor cores, 64 or 128 rows of a group by 128 columns a block, 32 columns
// of x and w at a time, four such steps in flight. grouped_simple_kernel: f32, and what 16 bytes cannot be read of at
// once. Hopper has a third, grouped_warpgroups.cu. In all a value is summed in ascending order along its row, whatever
// else is in the call.
#include "kernels/device/grouped_rows.cuh"
#include "kernels/device/mma.cuh"
#include "kernels/runtime/launch.h"

namespace kvcal::cuda {
namespace {

// ---------------------------------------------------------------- tiles on tensor cores

constexpr int kColumns = 128, kDepth = 32, kStages = 4;

/// Where 8 columns of a row lie in a tile, both multiples of 8: four such parts of two rows fill the banks of shared
/// memory, and every two rows they change places, so that the same part of 8 rows does so too.
__device__ inline int place_in_tile(int row, int column) { return row * kDepth + (column ^ row / 2 % 4 * 8); }

constexpr int kWarpRows = 64, kWarpColumns = 64;

template <int kRows>
struct Tiles {
  static constexpr int kThreads = kRows / kWarpRows * (kColumns / kWarpColumns) * kWarp;
  struct Stage {
    bf16 x[kRows * kDepth], w[kColumns * kDepth];
  };
  static constexpr size_t kShared = kStages * sizeof(Stage);
};

/// The rows of a matrix that this thread copies 16 bytes of at every step; null where there are none.
template <int kRows, int kThreads>
struct RowCopies {
  static constexpr int kPacks = kDepth / 8, kCount = kRows * kPacks / kThreads;
  const bf16* row[kCount];

  /// row_at(i): row i of the tile, or null.
  template <class F>
  __device__ explicit RowCopies(F row_at) {
#pragma unroll
    for (int c = 0; c < kCount; ++c) row[c] = row_at((static_cast<int>(threadIdx.x) + c * kThreads) / kPacks);
  }

  /// Begins to copy columns [k, k + 32) of `in`; zeros beyond. `any` is an address that may be read.
  __device__ void start(bf16* tile, int64_t k, int64_t in, const bf16* any) const {
    const int column = static_cast<int>(threadIdx.x) % kPacks * 8;
#pragma unroll
    for (int c = 0; c < kCount; ++c) {
      const int r = (static_cast<int>(threadIdx.x) + c * kThreads) / kPacks;
      const bool inside = row[c] && k + column < in;
      copy_async(tile + place_in_tile(r, column), inside ? row[c] + k + column : any, inside ? 16 : 0);
    }
  }
};

/// sums [64, 64] += x w^T for one step, of this warp.
__device__ inline void multiply_step(float (&sums)[kWarpRows / 16][kWarpColumns / 8][4], const bf16* x, const bf16* w) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int k = 0; k < kDepth; k += 16) {
    // The rows of a lane are its first one and 16 i more: they lie alike.
    const bf16* a_row = x + place_in_tile(lane % 16, lane / 16 * 8 + k);
    const bf16* b_row = w + place_in_tile(lane / 16 * 8 + lane % 8, lane / 8 % 2 * 8 + k);
    uint32_t b[kWarpColumns / 16][4];
#pragma unroll
    for (int j = 0; j < kWarpColumns / 16; ++j) load_matrices(b[j], b_row + j * 16 * kDepth);
#pragma unroll
    for (int i = 0; i < kWarpRows / 16; ++i) {
      uint32_t a[4];
      load_matrices(a, a_row + i * 16 * kDepth);
#pragma unroll
      for (int j = 0; j < kWarpColumns / 16; ++j) {
        multiply_add(sums[i][2 * j], a, {b[j][0], b[j][1]});
        multiply_add(sums[i][2 * j + 1], a, {b[j][2], b[j][3]});
      }
    }
  }
}

/// Block: a tile of rows and one of columns, columns counted first: neighbours in time read the same rows of x.
template <int kRows, class Y>
__global__ void __launch_bounds__(Tiles<kRows>::kThreads) grouped_tile_kernel(GroupedProduct p, int64_t column_tiles) {
  constexpr int kThreads = Tiles<kRows>::kThreads;
  const TileRows tile = TileRows::of<kRows>(blockIdx.x / column_tiles, p);
  if (tile.begin >= tile.end) return;
  const int64_t column0 = blockIdx.x % column_tiles * kColumns;
  const GroupWeight weight = p.weights[tile.group];
  const bf16* const w = static_cast<const bf16*>(weight.w);
  const RowCopies<kRows, kThreads> x_rows(
      [&](int i) { return tile.begin + i < tile.end ? row_of_x<bf16>(p, tile.group, tile.begin + i) : nullptr; });
  const RowCopies<kColumns, kThreads> w_rows(
      [&](int i) { return column0 + i < p.out ? w + (column0 + i) * p.in : nullptr; });
  auto* stages = dynamic_shared<typename Tiles<kRows>::Stage>();
  const auto load = [&](int64_t step) {
    auto& stage = stages[step % kStages];
    x_rows.start(stage.x, step * kDepth, p.in, w);
    w_rows.start(stage.w, step * kDepth, p.in, w);
    commit_copies();
  };
  for (int64_t step = 0; step < kStages - 1; ++step) load(step);

  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int warp_row = warp / (kColumns / kWarpColumns) * kWarpRows,
            warp_column = warp % (kColumns / kWarpColumns) * kWarpColumns;
  const bool busy = tile.begin + warp_row < tile.end && column0 + warp_column < p.out;
  float sums[kWarpRows / 16][kWarpColumns / 8][4] = {};
  for (int64_t step = 0; step * kDepth < p.in; ++step) {
    wait_copies<kStages - 2>();
    __syncthreads();  // this step's are there, and nobody reads the one before any more
    load(step + kStages - 1);
    const auto& stage = stages[step % kStages];
    if (busy) multiply_step(sums, stage.x + warp_row * kDepth, stage.w + warp_column * kDepth);
  }
  wait_copies<0>();
  if (!busy) return;
#pragma unroll
  for (int i = 0; i < kWarpRows / 16; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int64_t row = tile.begin + warp_row + i * 16 + half * 8 + lane / 4;
      if (row >= tile.end) continue;
      Y* const y = static_cast<Y*>(p.y) + row * p.y_stride + tile.group * p.y_group;
#pragma unroll
      for (int j = 0; j < kWarpColumns / 8; ++j) {
        const int64_t column = column0 + warp_column + j * 8 + lane % 4 * 2;
        if (column < p.out) store_pair(p, weight, y, column, sums[i][j][2 * half], sums[i][j][2 * half + 1]);
      }
    }
}

// ---------------------------------------------------------------- anything else

constexpr int kSimple = 16;

/// A block makes 16 x 16 values from strips of 16 columns of x and w.
template <class T, class Y>
__global__ void grouped_simple_kernel(GroupedProduct p, int64_t column_tiles) {
  KVCAL_SHARED(float, left, kSimple*(kSimple + 1));
  KVCAL_SHARED(float, right, kSimple*(kSimple + 1));
  const TileRows tile = TileRows::of<kSimple>(blockIdx.x / column_tiles, p);
  if (tile.begin >= tile.end) return;
  const int across = threadIdx.x % kSimple, down = threadIdx.x / kSimple;
  const int64_t row = tile.begin + down, column0 = blockIdx.x % column_tiles * kSimple, column = column0 + across;
  const GroupWeight weight = p.weights[tile.group];
  const T* const x = row < tile.end ? row_of_x<T>(p, tile.group, row) : nullptr;
  const T* const w = column0 + down < p.out ? static_cast<const T*>(weight.w) + (column0 + down) * p.in : nullptr;
  float sum = 0.0f;
  for (int64_t k = 0; k < p.in; k += kSimple) {
    const bool inside = k + across < p.in;
    __syncthreads();  // the strip before is no longer read
    left[down * (kSimple + 1) + across] = inside && x ? widen(x[k + across]) : 0.0f;
    right[down * (kSimple + 1) + across] = inside && w ? widen(w[k + across]) : 0.0f;
    __syncthreads();
    const int n = static_cast<int>(p.in - k < kSimple ? p.in - k : kSimple);
    for (int i = 0; i < n; ++i) sum = fmaf(left[down * (kSimple + 1) + i], right[across * (kSimple + 1) + i], sum);
  }
  if (row >= tile.end || column >= p.out) return;
  static_cast<Y*>(p.y)[row * p.y_stride + tile.group * p.y_group + column] = narrow<Y>(sum + bias_of(weight, column));
}

template <int kRows, class Y>
void tiles(const GroupedProduct& p, cudaStream_t stream) {
  const int64_t columns = n_blocks(p.out, kColumns);
  launch(KVCAL_KERNEL(grouped_tile_kernel<kRows, Y>), dim3(n_blocks(n_tiles(p, kRows) * columns, 1)),
         dim3(Tiles<kRows>::kThreads), Tiles<kRows>::kShared, stream, p, columns);
}

template <class T, class Y>
void simple(const GroupedProduct& p, cudaStream_t stream) {
  const int64_t columns = n_blocks(p.out, kSimple);
  launch(KVCAL_KERNEL(grouped_simple_kernel<T, Y>), dim3(n_blocks(n_tiles(p, kSimple) * columns, 1)),
         dim3(kSimple * kSimple), 0, stream, p, columns);
}

}  // namespace

// ---------------------------------------------------------------- launcher

void grouped_product(const GroupedProduct& p, cudaStream_t stream) {
  if (p.rows == 0 || p.out == 0) return;
  // Groups with few rows leave most of a large tile empty. A row's result is the same in all.
  const bool large = (p.first ? p.rows / p.n_groups : p.rows) >= 256;
  const bool wide = p.y_type == DType::F32;
  if (p.t == DType::F32)
    simple<float, float>(p, stream);
  else if (!p.vectors)
    wide ? simple<bf16, float>(p, stream) : simple<bf16, bf16>(p, stream);
  else if (large && p.warpgroups)
    grouped_by_warpgroups(p, stream);
  else if (large)
    wide ? tiles<128, float>(p, stream) : tiles<128, bf16>(p, stream);
  else
    wide ? tiles<64, float>(p, stream) : tiles<64, bf16>(p, stream);
}

}  // namespace kvcal::cuda
