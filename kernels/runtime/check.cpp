#include "kernels/runtime/check.h"

#include "base/error.h"

namespace kvcal::cuda {
namespace {

/// Of the device in use; empty when even that cannot be asked, which must not hide the first error.
std::string device_in_use() {
  int device = 0;
  cudaDeviceProp properties;
  if (cudaGetDevice(&device) != cudaSuccess) return "";
  if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) return " on device " + std::to_string(device);
  return " on device " + std::to_string(device) + " (" + properties.name + ")";
}

}  // namespace

void check(cudaError_t error, const std::string& what) {
  if (error == cudaSuccess) return;
  fail(what + device_in_use() + ": " + cudaGetErrorString(error) + " (" + cudaGetErrorName(error) + ")");
}

}  // namespace kvcal::cuda
