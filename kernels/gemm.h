// Matrix products of the CUDA backend, behind an interface: a device uses a library, tests without one a stand-in.
#pragma once

#include <cuda_runtime.h>

#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace kvcal::cuda {

class Gemm {
 public:
  virtual ~Gemm() = default;

  /// y = x wᵀ + bias, queued on the stream: x [rows, in] and w [out, in] of one dtype (BF16 or F32), bias [out] absent,
  /// F32 or BF16, y [rows, out] of the same dtype or F32, all on the device. Sums and the bias in f32; one rounding. A
  /// row's result may depend on how many rows the call has: bytes are promised for equal plans only. The workspace is
  /// shared by all calls: one stream at a time.
  virtual void multiply(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y, cudaStream_t stream) = 0;

  /// What was chosen for which shape, a line each.
  virtual std::vector<std::string> notes() const { return {}; }
};

}  // namespace kvcal::cuda
