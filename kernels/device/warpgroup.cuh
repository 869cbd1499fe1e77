// Products of a warpgroup, four warps, on tensor cores (wgmma): both operands lie in shared memory and are read while
// the threads go on. Hopper alone has them: nvcc makes them for sm_90a, and code for other GPUs must not come here.
// Each has a twin in the emulator.
#pragma once

#include "kernels/device/real.cuh"

#ifndef __CUDACC__
#include <emulator/warpgroup.h>
#endif

namespace kvcal::cuda {

/// Whether the code that is compiled here may have them.
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define KVCAL_HAS_WARPGROUPS
constexpr bool kHasWarpgroups = true;
#else
constexpr bool kHasWarpgroups = false;
#endif

/// An operand is a tile of rows of 64 elements, 128 bytes, that begins at a multiple of 1024 bytes. Within a row its
/// eight parts of 16 bytes change places with the row, so that the same part of eight rows lies in all banks.
constexpr int kProductDepth = 64, kProductAlignment = 1024;
__device__ inline int place_in_operand(int row, int column) { return row * kProductDepth + (column ^ row % 8 * 8); }

/// What this thread has copied to shared memory is there for products that begin behind the next barrier.
__device__ inline void show_to_products() {
#ifndef __CUDACC__
  emulator::show_to_products();
#elif defined(KVCAL_HAS_WARPGROUPS)
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

/// Before the first product of a group: registers that other instructions have written are seen by it.
__device__ inline void open_products() {
#ifndef __CUDACC__
  emulator::open_products();
#elif defined(KVCAL_HAS_WARPGROUPS)
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}

/// Closes the group of the products that this warpgroup has begun.
__device__ inline void commit_products() {
#ifndef __CUDACC__
  emulator::commit_products();
#elif defined(KVCAL_HAS_WARPGROUPS)
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

/// Waits for all groups but the newest kPending: their operands may be written again, and, with none left, sums be
/// read.
template <int kPending>
__device__ inline void wait_products() {
#ifndef __CUDACC__
  emulator::wait_products(kPending);
#elif defined(KVCAL_HAS_WARPGROUPS)
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
#endif
}

/// What the instruction takes for the columns of an operand from `k` on: address, 1024 bytes from eight rows to the
/// next eight, parts that change places over 128 bytes.
__device__ inline uint64_t operand_at(const bf16* tile, int k) {
#ifdef __CUDACC__
  constexpr uint64_t kEightRows = uint64_t{1024 >> 4} << 32, kSwizzled128 = uint64_t{1} << 62, kUnused = 1 << 16;
  const uint64_t address = static_cast<uint64_t>(__cvta_generic_to_shared(tile + k));
  return (address & 0x3FFFF) >> 4 | kUnused | kEightRows | kSwizzled128;
#else
  return reinterpret_cast<uint64_t>(tile + k);
#endif
}

/// Begins sums [64, 256] += x [64, 16] w [256, 16]^T of columns [k, k + 16) of both tiles, k a multiple of 16. Thread t
/// has rows t / 32 % 4 * 16 + t % 32 / 4 and, in the second pair of four sums, the eighth row below; of eight columns
/// the pair t % 4.
__device__ inline void begin_product(float (&sums)[128], const bf16* x, const bf16* w, int k) {
#ifndef __CUDACC__
  emulator::begin_product(sums, 256, x, w, k);
#elif defined(KVCAL_HAS_WARPGROUPS)
#define KVCAL_SUMS_4(i) "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3])
#define KVCAL_SUMS_16(i) KVCAL_SUMS_4(i), KVCAL_SUMS_4(i + 4), KVCAL_SUMS_4(i + 8), KVCAL_SUMS_4(i + 12)
#define KVCAL_SUMS_64(i) KVCAL_SUMS_16(i), KVCAL_SUMS_16(i + 16), KVCAL_SUMS_16(i + 32), KVCAL_SUMS_16(i + 48)
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
      "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
      "%128, %129, 1, 1, 1, 0, 0;"
      : KVCAL_SUMS_64(0), KVCAL_SUMS_64(64)
      : "l"(operand_at(x, k)), "l"(operand_at(w, k)));
#undef KVCAL_SUMS_64
#undef KVCAL_SUMS_16
#undef KVCAL_SUMS_4
#endif
}

}  // namespace kvcal::cuda
