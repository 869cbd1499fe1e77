// Extents of launches.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace kvcal::cuda {

/// "launching KERNEL with ... blocks of ... threads": what an error message begins with.
std::string describe_launch(const char* kernel, const dim3& grid, const dim3& block, size_t shared_bytes);

/// Blocks of `per_block` that hold n: an extent of a grid. Throws Error when a grid cannot have so many.
unsigned n_blocks(int64_t n, int64_t per_block);

}  // namespace kvcal::cuda
