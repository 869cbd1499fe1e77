// How kernels start: always through launch(), never with chevrons, so that the same source runs in the emulator, and
// so that a failed launch names its kernel and extents.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "kernels/runtime/check.h"
#include "kernels/runtime/grid.h"

namespace kvcal::cuda {

template <class... P>
struct Kernel {
  const char* name;
  void (*function)(P...);
};

template <class... P>
Kernel<P...> named(const char* name, void (*function)(P...)) {
  return {name, function};
}

/// KVCAL_KERNEL(add_kernel<T>): the function with its name. Variadic for the commas of template arguments.
#define KVCAL_KERNEL(...) ::kvcal::cuda::named(#__VA_ARGS__, __VA_ARGS__)

/// Runs the kernel on the stream; nothing at all when the grid is empty. Throws Error when it cannot start, or when an
/// earlier one has failed.
template <class... P, class... A>
void launch(const Kernel<P...>& kernel, const dim3& grid, const dim3& block, size_t shared_bytes, cudaStream_t stream,
            const A&... arguments) {
  static_assert(sizeof...(P) == sizeof...(A));
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  cudaError_t error = cudaSuccess;
#ifdef __CUDACC__
  constexpr size_t kUsualSharedBytes = 48 << 10;  // more has to be asked for
  if (shared_bytes > kUsualSharedBytes)
    error = cudaFuncSetAttribute(kernel.function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(shared_bytes));
  if (error == cudaSuccess) kernel.function<<<grid, block, shared_bytes, stream>>>(arguments...);
#else
  error = emulator::launch(kernel.name, kernel.function, grid, block, shared_bytes, stream, arguments...);
#endif
  if (error == cudaSuccess) error = cudaGetLastError();
  if (error != cudaSuccess) check(error, describe_launch(kernel.name, grid, block, shared_bytes));
}

/// Whether this device gets code of a kernel that only some architectures have: the others' takes fewer threads than it
/// is started with (its launch bounds), and does nothing.
template <class... P>
bool has_body(const Kernel<P...>& kernel, [[maybe_unused]] int threads) {
#ifdef __CUDACC__
  cudaFuncAttributes found{};
  check(cudaFuncGetAttributes(&found, kernel.function), std::string("asking for the code of ") + kernel.name);
  return found.maxThreadsPerBlock >= threads;
#else
  return emulator::has_body(kernel.name);
#endif
}

}  // namespace kvcal::cuda
