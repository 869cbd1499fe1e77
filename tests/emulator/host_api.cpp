// CUDA's host functions over host memory.
#include <cstdlib>

#include "include/cuda_runtime.h"

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
  }
  return "unknown";
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
  }
  return "unknown error";
}

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidValue; }

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device != 0) return cudaErrorInvalidValue;
  *properties = {"emulated GPU", 9, 0, emulator::kMostSharedBytes};
  return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  *stream = reinterpret_cast<cudaStream_t>(new char);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete reinterpret_cast<char*>(stream);
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  constexpr size_t kAlignment = 256;                 // as CUDA promises
  constexpr size_t kDeviceMemory = size_t{8} << 30;  // more than tests need
  if (bytes > kDeviceMemory) return cudaErrorMemoryAllocation;
  *pointer = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  if (!*pointer) return cudaErrorMemoryAllocation;
  std::memset(*pointer, emulator::kPoison, bytes);
  return cudaSuccess;
}

cudaError_t cudaFree(void* pointer) {
  std::free(pointer);
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) {
  if (bytes > 0) std::memset(to, value, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t) {
  if (bytes > 0) std::memcpy(to, from, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind, cudaStream_t) {
  if (width > to_pitch || width > from_pitch) return cudaErrorInvalidValue;
  for (size_t r = 0; r < height && width > 0; ++r)
    std::memcpy(static_cast<char*>(to) + r * to_pitch, static_cast<const char*>(from) + r * from_pitch, width);
  return cudaSuccess;
}

namespace emulator {

cudaError_t check_launch(const dim3& grid, const dim3& block, size_t shared_bytes) {
  const size_t threads = size_t{block.x} * block.y * block.z;
  const bool ok = threads > 0 && threads <= kMostThreads && shared_bytes <= kMostSharedBytes && grid.x > 0 &&
                  grid.x <= 0x7FFFFFFFu && grid.y > 0 && grid.y <= kMostGridYZ && grid.z > 0 && grid.z <= kMostGridYZ;
  return ok ? cudaSuccess : cudaErrorInvalidConfiguration;
}

}  // namespace emulator
