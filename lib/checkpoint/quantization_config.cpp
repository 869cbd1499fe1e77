#include "checkpoint/quantization_config.h"

namespace kvcal {
namespace {

constexpr int kDeepest = 2;

const Json* object_at(const Json& config, const char* key) {
  const Json* value = find_member(config, key);
  return value && value->is_object() ? value : nullptr;
}

void collect(const Json& config, const std::vector<std::string>& outside, std::vector<QuantizationConfig>& found) {
  const auto at = [&](const char* key) {
    std::vector<std::string> path = outside;
    path.emplace_back(key);
    return path;
  };
  const Json* mlx = object_at(config, kMlxQuantizationKey);
  for (const char* key : kQuantizationKeys)
    if (const Json* object = object_at(config, key)) found.push_back({at(key), object, mlx != nullptr});
  if (mlx) found.push_back({at(kMlxQuantizationKey), mlx, true});
  if (outside.size() == kDeepest) return;
  for (const char* key : kNestedConfigs)
    if (const Json* nested = object_at(config, key)) collect(*nested, at(key), found);
}

}  // namespace

std::vector<QuantizationConfig> quantization_configs(const Json& config) {
  std::vector<QuantizationConfig> found;
  if (config.is_object()) collect(config, {}, found);
  return found;
}

}  // namespace kvcal
