#include <algorithm>

#include "doctor/checkpoint_facts.h"

namespace kvcal {
namespace {

constexpr const char* kAdapterFile = "adapter_config.json";

/// Modules whose output, rotated or not, is what the cache stores.
bool writes_cache(const std::string& target) {
  for (const char* module : {"k_proj", "v_proj", "qkv_proj", "kv_a_proj_with_mqa", "kv_b_proj", "all-linear"})
    if (target == module || target.ends_with(std::string(".") + module)) return true;
  return false;
}

std::string joined_targets(const Json& targets) {
  std::string text;
  const auto take = [&](const Json& target) {
    if (!target.is_string() || !writes_cache(target.get_ref<const std::string&>())) return;
    text += (text.empty() ? "" : ", ") + target.get<std::string>();
  };
  if (targets.is_string()) take(targets);
  if (targets.is_array()) std::for_each(targets.begin(), targets.end(), take);
  return text;
}

}  // namespace

void take_adapter(const std::filesystem::path& path, Facts& facts) {
  const bool folder = std::filesystem::is_directory(path);
  const Json json = read_json_file(folder ? path / kAdapterFile : path, {.max_bytes = size_t{1} << 20});
  const Json* targets = json.is_object() ? find_member(json, "target_modules") : nullptr;
  if (targets == nullptr) fail(quoted(path.string()) + ": no LoRA adapter: has no \"target_modules\"");
  facts.adapter = AdapterFacts{path.string(), joined_targets(*targets)};
}

}  // namespace kvcal
