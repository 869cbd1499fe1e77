// What surrounds the library's matrix products: a product for what it refuses, and the means to judge its algorithms.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "tensor/tensor.h"

namespace kvcal::cuda {

/// The contract of Gemm::multiply for any extents and any address a value may have. Slow, but for four columns of y or
/// fewer (the gate of a shared expert), whose rows are read once or little more.
void simple_product(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y, cudaStream_t stream);

/// BF16 from F32, one rounding.
void round_values(const float* from, bf16* to, int64_t n, cudaStream_t stream);

/// F32 from BF16.
void widen_values(const bf16* from, float* to, int64_t n, cudaStream_t stream);

/// Adds to *sum, which is on the device, a number of the bits and their order; for equal bytes it is equal, and for
/// others with a chance of 2^-64.
void add_checksum(const Tensor& t, unsigned long long* sum, cudaStream_t stream);

}  // namespace kvcal::cuda
