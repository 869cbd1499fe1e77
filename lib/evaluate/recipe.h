// Which layers to store in which format so that the model's predictions move by no more than a given KL.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace kvcal {

/// A format that a layer's cache may have.
struct LayerFormat {
  std::string name;   // "bf16": the cache as it is
  double kl = 0;      // mean KL when this layer alone is stored so; of bf16 0
  int64_t bytes = 0;  // per token
};

/// What each layer may have, by cache. Not empty.
using LayerChoices = std::vector<std::vector<LayerFormat>>;

/// Index of the format of each layer, by cache.
using Choice = std::vector<size_t>;

int64_t bytes_of(const LayerChoices& layers, const Choice& choice);

/// The cheapest first: then, as long as the sum of the layers' KLs is above `most`, the change that lowers it most for
/// a byte; of equal ones that of the earlier layer.
Choice choose(const LayerChoices& layers, double most);

struct Recipe {
  Choice choice;
  double kl = 0;      // measured, of this choice
  double sum_kl = 0;  // of the layers alone
  int64_t bytes = 0;  // per token, of all layers
  int n_measured = 0;
};

/// KLs of layers do not add up exactly: noise cancels, and in bf16 each layer's includes that of all others. So choices
/// are measured, until the cheapest is found whose KL is at most `max_kl`: at most kMostMeasured of them, and one that
/// rounds nothing needs none.
constexpr int kMostMeasured = 8;
Recipe find_recipe(const LayerChoices& layers, double max_kl, const std::function<double(const Choice&)>& measure);

}  // namespace kvcal
