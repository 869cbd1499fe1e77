// Grouped products on Hopper (grouped_product.cu says what they are), for groups of many rows: tiles of 128 rows by 256
// columns, since tiles of 128 by 128 ask the device's cache for more than it gives. Two warpgroups have 64 rows each;
// 64 columns of x and w come at a time, four such steps have room: one is multiplied while the one before may still be,
// and two are on their way.
//
// A row has the same bits as by grouped_tile_kernel: 16 products are added at a time, in ascending order.
#include "kernels/device/grouped_rows.cuh"
#include "kernels/device/mma.cuh"
#include "kernels/device/shared.cuh"
#include "kernels/device/warpgroup.cuh"
#include "kernels/runtime/launch.h"

namespace kvcal::cuda {
namespace {

constexpr int kRows = 128, kColumns = 256, kStages = 4, kThreads = 256;
constexpr int kGroupThreads = 128, kGroupRows = kRows / (kThreads / kGroupThreads);

struct Stage {
  bf16 x[kRows * kProductDepth], w[kColumns * kProductDepth];
};
static_assert(sizeof(Stage::x) % kProductAlignment == 0 && sizeof(Stage::w) % kProductAlignment == 0);
constexpr size_t kShared = kStages * sizeof(Stage) + kProductAlignment;

__device__ Stage* stages_of_block() {
  const auto address = reinterpret_cast<uintptr_t>(dynamic_shared<unsigned char>());
  return reinterpret_cast<Stage*>((address + kProductAlignment - 1) / kProductAlignment * kProductAlignment);
}

/// What a thread copies at every step: 16 bytes of every 32nd row of both operands.
struct Copies {
  static constexpr int kParts = kProductDepth / 8, kStep = kThreads / kParts, kOfX = kRows / kStep,
                       kOfW = kColumns / kStep;
  const bf16* x[kOfX];  // null: there is no such row
  const bf16* w;        // the first row
  int64_t in, n_rows;   // of w, from the first on
  int column, place;

  __device__ Copies(const GroupedProduct& p, const TileRows& tile, const bf16* weight, int64_t column0) : in(p.in) {
    const int row = static_cast<int>(threadIdx.x) / kParts;
    column = static_cast<int>(threadIdx.x) % kParts * 8;
    place = place_in_operand(row, column);
#pragma unroll
    for (int c = 0; c < kOfX; ++c) {
      const int64_t r = tile.begin + row + c * kStep;
      x[c] = r < tile.end ? row_of_x<bf16>(p, tile.group, r) : nullptr;
    }
    w = weight + (column0 + row) * in;
    n_rows = p.out - column0 - row;
  }

  /// Begins to copy columns [k, k + 64), zeros beyond; `any` is an address that may be read.
  __device__ void start(Stage& stage, int64_t k, const bf16* any) const {
    const bool inside = k + column < in;
#pragma unroll
    for (int c = 0; c < kOfX; ++c) {
      const bool there = inside && x[c];
      copy_async(stage.x + place + c * kStep * kProductDepth, there ? x[c] + k + column : any, there ? 16 : 0);
    }
#pragma unroll
    for (int c = 0; c < kOfW; ++c) {
      const bool there = inside && c * kStep < n_rows;
      copy_async(stage.w + place + c * kStep * kProductDepth, there ? w + c * kStep * in + k + column : any,
                 there ? 16 : 0);
    }
  }
};

/// Block: a tile of rows and one of columns, columns counted first: neighbours in time read the same rows of x.
template <class Y>
__global__ void __launch_bounds__(kHasWarpgroups ? kThreads : kWarp, 1)
    grouped_warpgroups_kernel(GroupedProduct p, int64_t column_tiles) {
  if (!kHasWarpgroups) return;
  const TileRows tile = TileRows::of<kRows>(blockIdx.x / column_tiles, p);
  if (tile.begin >= tile.end) return;
  const int64_t column0 = blockIdx.x % column_tiles * kColumns;
  const GroupWeight weight = p.weights[tile.group];
  const bf16* const w = static_cast<const bf16*>(weight.w);
  const Copies copies(p, tile, w, column0);
  Stage* const stages = stages_of_block();
  const auto load = [&](int64_t step) {
    if (step * kProductDepth < p.in) copies.start(stages[step % kStages], step * kProductDepth, w);
    commit_copies();
  };
  for (int64_t step = 0; step < kStages - 2; ++step) load(step);

  const int thread = static_cast<int>(threadIdx.x), row0 = thread / kGroupThreads * kGroupRows;
  float sums[kColumns / 2] = {};
  for (int64_t step = 0; step * kProductDepth < p.in; ++step) {
    wait_copies<kStages - 3>();
    show_to_products();
    wait_products<1>();  // the stage of the step before the last is free
    __syncthreads();     // for all threads; and this step's is there
    const Stage& stage = stages[step % kStages];
    open_products();
#pragma unroll
    for (int k = 0; k < kProductDepth; k += 16) begin_product(sums, stage.x + row0 * kProductDepth, stage.w, k);
    commit_products();
    load(step + kStages - 2);
  }
  wait_products<0>();
  wait_copies<0>();

  const int lane = thread % kWarp, warp_row = row0 + thread % kGroupThreads / kWarp * 16;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t row = tile.begin + warp_row + half * 8 + lane / 4;
    if (row >= tile.end) continue;
    Y* const y = static_cast<Y*>(p.y) + row * p.y_stride + tile.group * p.y_group;
#pragma unroll
    for (int j = 0; j < kColumns / 8; ++j) {
      const int64_t column = column0 + j * 8 + lane % 4 * 2;
      if (column < p.out) store_pair(p, weight, y, column, sums[4 * j + 2 * half], sums[4 * j + 2 * half + 1]);
    }
  }
}

template <class Y>
void start(const GroupedProduct& p, cudaStream_t stream) {
  const int64_t columns = n_blocks(p.out, kColumns);
  launch(KVCAL_KERNEL(grouped_warpgroups_kernel<Y>), dim3(n_blocks(n_tiles(p, kRows) * columns, 1)), dim3(kThreads),
         kShared, stream, p, columns);
}

}  // namespace

// ---------------------------------------------------------------- launcher

bool has_warpgroups() { return has_body(KVCAL_KERNEL(grouped_warpgroups_kernel<bf16>), kThreads); }

void grouped_by_warpgroups(const GroupedProduct& p, cudaStream_t stream) {
  if (p.y_type == DType::F32)
    start<float>(p, stream);
  else
    start<bf16>(p, stream);
}

}  // namespace kvcal::cuda
