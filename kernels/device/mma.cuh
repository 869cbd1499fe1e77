// Tensor-core instructions. Each has a twin in the emulator with the same lane layout.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#ifndef __CUDACC__
#include <emulator/mma.h>
#endif

namespace kvcal::cuda {

/// Four 8x8 matrices of 16-bit elements from shared memory. Lane l gives the 16-byte aligned address of row l % 8 of
/// matrix l / 8; register m of lane l becomes elements 2 (l % 4), 2 (l % 4) + 1 of row l / 4 of matrix m.
__device__ inline void load_matrices(uint32_t (&r)[4], const void* row) {
#ifdef __CUDACC__
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
#else
  emulator::ldmatrix_x4(r, row, false);
#endif
}

/// The same, each matrix transposed: register m holds elements of column l / 4.
__device__ inline void load_matrices_transposed(uint32_t (&r)[4], const void* row) {
#ifdef __CUDACC__
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
#else
  emulator::ldmatrix_x4(r, row, true);
#endif
}

/// d [16, 8] += a [16, 16] b [16, 8] in bf16 with f32 sums. With g = lane / 4 and t = lane % 4: a[0..3] are rows g,
/// g+8, g, g+8 at columns 2t, 2t, 2t+8, 2t+8 (two elements each); b[0..1] rows 2t, 2t+8 (two each) of column g;
/// d[0..3] rows g, g, g+8, g+8 at columns 2t, 2t+1, 2t, 2t+1.
__device__ inline void multiply_add(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#ifdef __CUDACC__
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  emulator::mma_m16n8k16(d, a, b);
#endif
}

/// Starts copying 16 bytes from global to shared memory, of which the first n_valid are read and the rest becomes zero.
/// Both addresses are 16-byte aligned.
__device__ inline void copy_async(void* to, const void* from, int n_valid) {
#ifdef __CUDACC__
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(n_valid) : "memory");
#else
  emulator::copy_async(to, from, 16, static_cast<size_t>(n_valid));
#endif
}

/// Closes the group of the copies this thread has started.
__device__ inline void commit_copies() {
#ifdef __CUDACC__
  asm volatile("cp.async.commit_group;" ::: "memory");
#else
  emulator::commit_copies();
#endif
}

/// Waits for this thread's own copies, but for those of the newest kPending groups. Other threads see them after a
/// barrier.
template <int kPending>
__device__ inline void wait_copies() {
#ifdef __CUDACC__
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#else
  emulator::wait_copies(kPending);
#endif
}

}  // namespace kvcal::cuda
