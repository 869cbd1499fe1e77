// From the dtype of activations to the type that loops and kernels are written for, on every device.
#pragma once

#include "tensor/dtype.h"

namespace kvcal {

/// Calls f with a value of the element type of activations: float or bf16.
template <class F>
void visit_activation(DType dtype, F&& f) {
  if (dtype == DType::BF16)
    f(bf16{});
  else
    f(float{});
}

}  // namespace kvcal
