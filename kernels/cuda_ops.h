// How the rest of the program gets the CUDA backend.
#pragma once

#include <memory>

#include "kernels/attention_library.h"
#include "kernels/runtime/background_reader.h"
#include "ops/ops.h"

namespace kvcal {

struct CudaOptions {
  Precision precision = Precision::BF16;
  int device = 0;
  bool poison_temporaries = false;  // end_batch() fills the arena with NaN (tests)
  cuda::ReaderOptions reader = {};
};

/// attention may be null: own kernels do all of it. Throws Error when the device cannot be used: too old a driver or
/// device, no kernels for it, no memory.
std::unique_ptr<Ops> make_cuda_ops(const CudaOptions& options,
                                   std::unique_ptr<cuda::AttentionLibrary> attention = nullptr);

}  // namespace kvcal
