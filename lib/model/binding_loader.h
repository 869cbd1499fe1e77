// Takes weights and forgets them: what is left of loading is what was asked for.
#pragma once

#include "ops/weight_loader.h"

namespace kvcal {

class BindingLoader final : public WeightLoader {
 public:
  BindingLoader() : WeightLoader(Precision::BF16) {}

 private:
  Linear do_load_linear(const Tensor& weight, const Tensor&) override {
    return {weight.dim(1), weight.dim(0), something_, {}};
  }
  Linear do_load_linear_f32(const Tensor& weight, const Tensor& bias) override { return do_load_linear(weight, bias); }
  Owned do_load_vector(const Tensor& weight, DType, float) override { return {weight, nullptr}; }
  std::shared_ptr<const ColumnNorms> do_load_column_norms(const Tensor&, const Tensor&, int64_t) override { return {}; }

  std::shared_ptr<const void> something_ = std::make_shared<int>(0);
};

}  // namespace kvcal
