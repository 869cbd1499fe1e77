// Memory shared by the threads of a block.
#pragma once

#include <cuda_runtime.h>

#ifdef __CUDACC__

/// KVCAL_SHARED(float, part, 32): float part[32] of the block, uninitialised.
#define KVCAL_SHARED(type, name, ...) __shared__ type name[__VA_ARGS__]

namespace kvcal::cuda {

/// The bytes asked for at launch, 16-byte aligned.
template <class T>
__device__ T* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char raw[];
  return reinterpret_cast<T*>(raw);
}

}  // namespace kvcal::cuda

#else

// The address of a variable that exists once per place in the source, and per instance of a template, is the key.
#define KVCAL_SHARED(type, name, ...)              \
  static const char name##_key = 0;                \
  auto& name = *static_cast<type(*)[__VA_ARGS__]>( \
      ::emulator::shared_memory(&name##_key, sizeof(type[__VA_ARGS__]), alignof(type)))

namespace kvcal::cuda {

template <class T>
T* dynamic_shared() {
  return static_cast<T*>(::emulator::dynamic_shared_memory());
}

}  // namespace kvcal::cuda

#endif
