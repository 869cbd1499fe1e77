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

/// What was measured of a choice: the mean KL, and the share of tokens after which both hold the same for the
/// likeliest.
struct MeasuredChoice {
  double kl = 0, top1 = 1;
};

/// What is good enough.
struct RecipeLimits {
  double max_kl = 0, min_top1 = 0;
  bool allow(const MeasuredChoice& m) const { return m.kl <= max_kl && m.top1 >= min_top1; }
};

struct Recipe {
  Choice choice;
  MeasuredChoice measured;
  double sum_kl = 0;  // of the layers alone
  int64_t bytes = 0;  // per token, of all layers
  int n_measured = 0;
};

/// KLs of layers do not add up exactly: noise cancels, and in bf16 each layer's includes that of all others. So choices
/// are measured, until the cheapest is found that the limits allow: at most kMostMeasured of them, and one that rounds
/// nothing needs none.
constexpr int kMostMeasured = 8;
using MeasureChoice = std::function<MeasuredChoice(const Choice&)>;
Recipe find_recipe(const LayerChoices& layers, const RecipeLimits& limits, const MeasureChoice& measure);

}  // namespace kvcal
