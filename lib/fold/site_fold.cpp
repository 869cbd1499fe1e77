#include "fold/site_fold.h"

#include <algorithm>
#include <iterator>

namespace kvcal {

std::vector<const LayerSpec*> FoldedCache::readers() const {
  std::vector<const LayerSpec*> readers = {&owner()};
  for (const LayerSpec& layer : spec.layers)
    if (layer.shares_cache == layout.cache) readers.push_back(&layer);
  return readers;
}

Folded all_of(std::span<const std::function<Folded()>> steps) {
  Folded all;
  for (const auto& step : steps) {
    Folded one = step();
    if (!one.obstacle.empty()) return one;
    std::ranges::move(one.tensors, std::back_inserter(all.tensors));
    std::ranges::move(one.layers, std::back_inserter(all.layers));
  }
  return all;
}

std::vector<int> inverse(std::vector<int> exponents) {
  for (int& e : exponents) e = -e;
  return exponents;
}

}  // namespace kvcal
