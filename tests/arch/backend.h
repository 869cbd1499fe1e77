// What a program of this folder tests: the CPU backend, or the CUDA backend in the emulator (cpu_backend.cpp,
// cuda_backend.cpp).
#pragma once

#include <memory>

#include "ops/ops.h"

namespace kvcal {

/// Fills forgotten temporaries with NaN.
std::unique_ptr<Ops> backend(Precision precision);

}  // namespace kvcal
