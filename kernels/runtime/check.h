// Every call of CUDA is checked; what failed is named.
#pragma once

#include <cuda_runtime.h>

#include <string>

namespace kvcal::cuda {

/// Throws Error unless the call succeeded: "WHAT on device 0 (NVIDIA H200): out of memory (cudaErrorMemoryAllocation)".
void check(cudaError_t error, const std::string& what);

}  // namespace kvcal::cuda
