// One site of one cache: which weights can bring its values to their place, and what each is multiplied by.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "fold/placement.h"
#include "fold/weight_fold.h"
#include "model/model_spec.h"

namespace kvcal {

/// What a site's weights leave to choose, and the tensors that given exponents [heads · width] change. `obstacle`: why
/// there are none.
struct SiteWeights {
  std::string obstacle;
  PlacementLimits limits;
  std::function<Folded(const std::vector<int>&)> fold;
};

/// The cache of a layer, with what folds of it need.
struct FoldedCache {
  const ModelSpec& spec;
  const KvLayout& layout;
  const WeightFolder& folder;
  std::string prefix;  // of the language model's tensors: "model."

  const LayerSpec& owner() const { return spec.layers[static_cast<size_t>(layout.layer)]; }
  /// The owner, and the layers that share its cache: all whose queries meet the keys.
  std::vector<const LayerSpec*> readers() const;
  std::string module(const LayerSpec& layer, const std::string& name) const {
    const std::string& module = layer.attention.module;
    return (is_beside_prefix(module) ? "" : prefix) + module + name;
  }
};

/// Key and Value of grouped-query attention.
SiteWeights key_weights(const FoldedCache& cache);
SiteWeights value_weights(const FoldedCache& cache);

/// The two parts of a row of latent attention.
SiteWeights latent_weights(const FoldedCache& cache);
SiteWeights rope_weights(const FoldedCache& cache);

/// The first fold that is possible, or the first obstacle among `steps`, made one after the other.
Folded all_of(std::span<const std::function<Folded()>> steps);

/// -exponents.
std::vector<int> inverse(std::vector<int> exponents);

}  // namespace kvcal
