#include "kernels/runtime/check.h"

#include "base/error.h"

namespace kvcal::cuda {

std::string device_in_use() {
  int device = 0;
  cudaDeviceProp properties;
  if (cudaGetDevice(&device) != cudaSuccess) return "";
  if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) return " on device " + std::to_string(device);
  return " on device " + std::to_string(device) + " (" + properties.name + ")";
}

namespace {

std::string likely_cause(cudaError_t error) {
  size_t free = 0, total = 0;
  if (error == cudaErrorNoKernelImageForDevice)
    return "; the library was built for other GPUs: build it with -DCMAKE_CUDA_ARCHITECTURES=native";
  if (error == cudaErrorMemoryAllocation && cudaMemGetInfo(&free, &total) == cudaSuccess)
    return "; " + std::to_string(free >> 20) + " of " + std::to_string(total >> 20) +
           " MiB are free, perhaps another program uses the device";
  return "";
}

}  // namespace

void check(cudaError_t error, const std::string& what) {
  if (error == cudaSuccess) return;
  fail(what + device_in_use() + ": " + cudaGetErrorString(error) + " (" + cudaGetErrorName(error) + ")" +
       likely_cause(error));
}

}  // namespace kvcal::cuda
