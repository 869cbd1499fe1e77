// From the dtype of a tensor to the type of a kernel's template.
#pragma once

#include "tensor/dtype.h"

namespace kvcal::cuda {

/// Calls f with a value of the element type of activations: float or bf16.
template <class F>
void visit_activation(DType dtype, F&& f) {
  if (dtype == DType::BF16)
    f(bf16{});
  else
    f(float{});
}

}  // namespace kvcal::cuda
