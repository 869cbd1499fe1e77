#include "evaluate/recipe.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace kvcal {
namespace {

double sum_of(const LayerChoices& layers, const Choice& choice) {
  double sum = 0;
  for (size_t i = 0; i < layers.size(); ++i) sum += layers[i][choice[i]].kl;
  return sum;
}

bool cheaper(const LayerFormat& a, const LayerFormat& b) {
  return a.bytes != b.bytes ? a.bytes < b.bytes : a.kl < b.kl;
}

/// What a change of one layer's format gains for each byte that it costs.
double gain_of(const LayerFormat& from, const LayerFormat& to) {
  const double gained = from.kl - to.kl;
  if (gained <= 0) return 0;
  const int64_t cost = to.bytes - from.bytes;
  return cost > 0 ? gained / static_cast<double>(cost) : std::numeric_limits<double>::infinity();
}

struct Change {
  size_t layer = 0, format = 0;
  double gain = 0;
};

Change best_change(const LayerChoices& layers, const Choice& choice) {
  Change best;
  for (size_t i = 0; i < layers.size(); ++i)
    for (size_t f = 0; f < layers[i].size(); ++f)
      if (const double gain = gain_of(layers[i][choice[i]], layers[i][f]); gain > best.gain) best = {i, f, gain};
  return best;
}

/// Measures choices and keeps the cheapest that is good enough.
class Search {
 public:
  Search(const LayerChoices& layers, const RecipeLimits& limits, const MeasureChoice& measure)
      : layers_(layers), limits_(limits), measure_(measure) {}

  /// Whether what choose() gives for this sum is good enough.
  bool allows(double sum) {
    Recipe tried{choose(layers_, sum), {}};
    tried.sum_kl = sum_of(layers_, tried.choice);
    tried.bytes = bytes_of(layers_, tried.choice);
    const auto known = std::ranges::find(tried_, tried.choice, &Recipe::choice);
    if (known != tried_.end()) return limits_.allow(known->measured);
    if (tried.sum_kl > 0) tried.measured = measure_(tried.choice);
    n_measured_ += tried.sum_kl > 0;
    tried_.push_back(tried);
    const bool good = limits_.allow(tried.measured);
    if (good && (!best_ || tried.bytes < best_->bytes ||
                 (tried.bytes == best_->bytes && tried.measured.kl < best_->measured.kl)))
      best_ = tried;
    return good;
  }

  bool may_measure() const { return n_measured_ < kMostMeasured; }

  Recipe best() {
    if (!best_) allows(0);
    best_->n_measured = n_measured_;
    return *best_;
  }

 private:
  const LayerChoices& layers_;
  const RecipeLimits& limits_;
  const MeasureChoice& measure_;
  std::vector<Recipe> tried_;
  std::optional<Recipe> best_;
  int n_measured_ = 0;
};

}  // namespace

int64_t bytes_of(const LayerChoices& layers, const Choice& choice) {
  int64_t bytes = 0;
  for (size_t i = 0; i < layers.size(); ++i) bytes += layers[i][choice[i]].bytes;
  return bytes;
}

Choice choose(const LayerChoices& layers, double most) {
  Choice choice;
  for (const std::vector<LayerFormat>& formats : layers)
    choice.push_back(static_cast<size_t>(std::ranges::min_element(formats, cheaper) - formats.begin()));
  while (sum_of(layers, choice) > most) {
    const Change change = best_change(layers, choice);
    if (change.gain == 0) break;
    choice[change.layer] = change.format;
  }
  return choice;
}

Recipe find_recipe(const LayerChoices& layers, const RecipeLimits& limits, const MeasureChoice& measure) {
  Search search(layers, limits, measure);
  const double cheapest = sum_of(layers, choose(layers, std::numeric_limits<double>::infinity()));
  if (search.allows(cheapest)) return search.best();
  // Between a sum that is good enough and one that is not. Where sums and KLs differ by a factor, so do these.
  double good = 0, bad = cheapest;
  for (double sum = std::min(limits.max_kl, cheapest / 2); search.may_measure() && bad > 1.05 * good;
       sum = std::sqrt(good * bad)) {
    if (sum <= 0) break;
    (search.allows(sum) ? good : bad) = sum;
    if (good == 0) good = bad / 1024;
  }
  return search.best();
}

}  // namespace kvcal
