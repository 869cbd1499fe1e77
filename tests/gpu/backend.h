// The CUDA backend on the GPU of this machine, with cuBLASLt and, where it is found, cuDNN.
#pragma once

#include <memory>

#include "harness/shared_backend.h"
#include "kernels/cuda_ops.h"
#include "kernels/cudnn/cudnn_attention.h"

namespace kvcal::test {

/// Temporaries that end_batch() forgets are filled with NaN.
inline std::unique_ptr<Ops> gpu_ops(Precision precision) {
  return shared_backend(precision, [](Precision p) {
    return make_cuda_ops({p, 0, true}, cuda::make_cudnn_attention());
  });
}

}  // namespace kvcal::test
