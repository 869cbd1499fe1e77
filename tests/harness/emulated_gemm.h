// Stands in for the library of matrix products where there is no GPU: the CPU backend's product in f32.
#pragma once

#include <cstring>

#include "kernels/gemm.h"
#include "ops/cpu/cpu_ops.h"

namespace kvcal::test {

class EmulatedGemm final : public cuda::Gemm {
 public:
  void multiply(const Tensor& x, const Tensor& w, const float* bias, const Tensor& y, cudaStream_t stream) override {
    emulator::enqueue(stream, [=, this] { multiply_now(x, w, bias, y); });
  }

 private:
  void multiply_now(const Tensor& x, const Tensor& w, const float* bias, const Tensor& y) {
    Linear weight = cpu_->load_linear(wide(w).tensor());
    if (bias) {
      weight.bias = cpu_->allocate({weight.out}, DType::F32);
      std::memcpy(weight.bias.view.data, bias, weight.bias.view.bytes());
    }
    const Storage from = wide(x);
    const Tensor product = cpu_->linear(from.tensor(), weight);
    if (y.dtype == DType::F32)
      std::memcpy(y.data, product.data, product.bytes());
    else
      convert_to_bf16(DType::F32, product.data, static_cast<bf16*>(y.data), static_cast<size_t>(y.elements()));
    cpu_->end_batch();
  }

  /// On the host and in f32: products of bf16 values are exact there.
  static Storage wide(const Tensor& t) {
    Storage copy(t.shape, DType::F32);
    convert_to_float(t.dtype, t.data, copy.tensor().as<float>(), static_cast<size_t>(t.elements()));
    return copy;
  }

  std::unique_ptr<Ops> cpu_ = make_cpu_ops({Precision::F32, 1, false});
};

}  // namespace kvcal::test
