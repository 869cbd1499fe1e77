#include "servers/foldable.h"

#include <algorithm>

namespace kvcal {
namespace {

bool keys_take_powers(HeadNorm norm) { return norm != HeadNorm::OnePlusGain && norm != HeadNorm::NoGain; }

bool takes_powers(const LayerSpec& layer, const KvLayout& cache) {
  const AttentionTensors& tensors = layer.attention;
  if (!tensors.obstacle.empty()) return false;
  return cache.is_mla() || keys_take_powers(tensors.norm) || !tensors.value_normed;
}

}  // namespace

bool may_be_folded(const ModelSpec& spec) {
  return std::ranges::any_of(spec.caches, [&](const KvLayout& cache) {
    const auto owner = std::ranges::find(spec.layers, cache.layer, &LayerSpec::index);
    return owner != spec.layers.end() && takes_powers(*owner, cache);
  });
}

}  // namespace kvcal
