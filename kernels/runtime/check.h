// Every call of CUDA is checked; what failed is named.
#pragma once

#include <cuda_runtime.h>

#include <string>

namespace kvcal::cuda {

/// Throws Error unless the call succeeded: "WHAT on device 0 (NVIDIA H200): out of memory (cudaErrorMemoryAllocation)".
void check(cudaError_t error, const std::string& what);

/// " on device 0 (NVIDIA H200)"; empty when even that cannot be asked, which must not hide the first error.
std::string device_in_use();

}  // namespace kvcal::cuda
