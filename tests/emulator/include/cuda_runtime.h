// What kernels/ uses of CUDA, for the emulator: found as <cuda_runtime.h> where tests build the kernels with the host
// compiler. Names and meanings are CUDA's; nothing is here that kernels/ does not use.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <tuple>

#include "emulator/emulator.h"
#include "emulator/streams.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __grid_constant__
#define __launch_bounds__(...)

// ---------------------------------------------------------------- types

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};

#define threadIdx (emulator::thread_index())
#define blockIdx (emulator::block_index())
#define blockDim (emulator::block_extent())
#define gridDim (emulator::grid_extent())

// ---------------------------------------------------------------- inside kernels

inline void __syncthreads() { emulator::barrier(); }
inline void __syncwarp(unsigned mask = ~0u) { emulator::sync_warp(mask); }

template <class T>
T __shfl_sync(unsigned mask, T value, int source) {
  return emulator::exchange(mask, value, static_cast<unsigned>(source));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes) {
  return emulator::exchange(mask, value, emulator::lane_index() ^ static_cast<unsigned>(lanes));
}

inline unsigned __reduce_max_sync(unsigned mask, unsigned value) { return emulator::reduce_max(mask, value); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x)); }

template <class T>
T atomicAdd(T* address, T value) {
  const emulator::AtomicOperation operation(address, sizeof(T));
  const T old = *address;
  *address = old + value;
  return old;
}
template <class T>
T atomicMax(T* address, T value) {
  const emulator::AtomicOperation operation(address, sizeof(T));
  const T old = *address;
  *address = std::max(old, value);
  return old;
}

inline uint32_t __float_as_uint(float x) {
  uint32_t u;
  std::memcpy(&u, &x, sizeof(u));
  return u;
}
inline int min(int a, int b) { return std::min(a, b); }
inline int max(int a, int b) { return std::max(a, b); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __uint_as_float(uint32_t u) {
  float x;
  std::memcpy(&x, &u, sizeof(x));
  return x;
}
inline long long __double_as_longlong(double x) {
  long long u;
  std::memcpy(&u, &x, sizeof(u));
  return u;
}

// ---------------------------------------------------------------- the host's side: memory is the host's, work is done
// when emulator::set_timing() says

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDeviceToDevice = 3 };
using cudaStream_t = EmulatedStream*;
using cudaEvent_t = EmulatedEvent*;
inline constexpr unsigned cudaStreamNonBlocking = 1, cudaEventBlockingSync = 1, cudaEventDisableTiming = 2,
                          cudaHostAllocDefault = 0, cudaHostAllocPortable = 1, cudaDeviceScheduleBlockingSync = 4;
enum cudaDeviceAttr { cudaDevAttrIntegrated = 18 };
struct cudaDeviceProp {
  char name[256];
  int major, minor;
  size_t sharedMemPerBlockOptin;
  int multiProcessorCount;
};

const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();  // what emulator::leave_error() left, once
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaRuntimeGetVersion(int* version);
cudaError_t cudaGetDeviceCount(int* n);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaSetDeviceFlags(unsigned flags);  // of the current device
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaStreamCreate(cudaStream_t* stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventCreate(cudaEvent_t* event);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to);
cudaError_t cudaMalloc(void** pointer, size_t bytes);  // poisoned
cudaError_t cudaFree(void* pointer);
cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned flags);  // poisoned
cudaError_t cudaFreeHost(void* pointer);
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream);

namespace emulator {

/// How often a thread of the host waited for an event, timers apart, or for a stream that it would not have slept for.
int64_t spinning_waits();

/// As a launch by somebody else leaves it for the next who asks.
void leave_error(cudaError_t error);

/// What a device of the emulated kind would say to a launch of these extents on this stream.
cudaError_t check_launch(const dim3& grid, const dim3& block, size_t shared_bytes, cudaStream_t stream);

/// Whether the memory is this stream's device's, or no device's: of the others' a kernel could read nothing.
bool may_read(cudaStream_t stream, const void* address);

template <class T>
bool may_read(cudaStream_t stream, const T& argument) {
  if constexpr (std::is_pointer_v<T>)
    return may_read(stream, static_cast<const void*>(argument));
  else
    return true;  // pointers inside of structures are not looked at
}

template <class... P, class... A>
cudaError_t launch(const char* name, void (*kernel)(P...), const dim3& grid, const dim3& block, size_t shared_bytes,
                   cudaStream_t stream, const A&... arguments) {
  cudaError_t error = check_launch(grid, block, shared_bytes, stream);
  if (!(may_read(stream, arguments) && ...)) error = cudaErrorIllegalAddress;
  if (error == cudaSuccess)
    enqueue(stream, [=, values = std::tuple<P...>(P(arguments)...)] {
      const Extent blocks{grid.x, grid.y, grid.z}, threads{block.x, block.y, block.z};
      const auto call = [&](const P&... p) {
        kernel_runner()({name,
                         reinterpret_cast<const void*>(kernel),
                         blocks,
                         threads,
                         shared_bytes,
                         {{&p, sizeof(p), alignof(P)}...}});
      };
      if (kernel_runner())
        std::apply(call, values);
      else
        run(name, blocks, threads, shared_bytes, [&] { std::apply(kernel, values); });
    });
  return error;
}

}  // namespace emulator
