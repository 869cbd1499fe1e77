// Factors of a weight's rows or columns as factors of the tensors that store it, in whatever format.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/activation_scheme.h"
#include "checkpoint/formats/stored_weight.h"
#include "fold/tensor_fold.h"

namespace kvcal {

/// Of a weight [rows, columns] as the model sees it: one power of two for each line.
struct WeightFactors {
  std::string module;  // full name without ".weight"
  int64_t rows = 0, columns = 0;
  Axis axis = Axis::Rows;
  std::vector<int> exponents;
};

/// Tensors to multiply, and what that does to layers and gains as the model sees them; or why it is not possible.
struct Folded {
  std::vector<TensorFold> tensors;
  std::vector<WeightFactors> layers;
  std::string obstacle;

  static Folded impossible(std::string why) { return {{}, {}, std::move(why)}; }
};

class WeightFolder {
 public:
  /// The checkpoint must outlive it.
  explicit WeightFolder(const Checkpoint& checkpoint);

  /// Of a linear layer; with rows, its bias too. Nothing is asked of exactness yet.
  Folded fold(const WeightFactors& factors) const;

  /// Of a plain tensor with as many elements: the gain of a norm.
  Folded fold_gain(const std::string& name, const std::vector<int>& exponents) const;

  /// Elements of a plain tensor; 0 when there is none of that name.
  int64_t elements(const std::string& name) const;

  const Checkpoint& checkpoint() const { return checkpoint_; }

 private:
  std::string inputs_obstacle(const WeightFactors& factors) const;
  Folded fold_stored(const WeightFactors& factors, const StoredWeight& stored) const;

  const Checkpoint& checkpoint_;
  QuantizationFacts facts_;
  std::optional<ActivationScheme> scheme_;  // how servers round what quantized layers multiply, where that is known
};

}  // namespace kvcal
