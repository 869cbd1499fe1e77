#include "fold/adapter_fold.h"

#include <algorithm>

#include "base/error.h"
#include "checkpoint/weight_files.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "base_model.model.";

/// A tensor of an adapter: the base's module or tensor that it belongs to, and what it is of that.
struct AdapterTensor {
  std::string name;    // in the adapter
  std::string module;  // "model.layers.0.self_attn.q_proj"
  std::string part;    // "lora_A.weight", "weight", ...
};

AdapterTensor parsed(const std::string& name) {
  const std::string base = name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name;
  for (const std::string_view part :
       {".lora_A.weight", ".lora_B.weight", ".lora_B.bias", ".lora_magnitude_vector", ".weight", ".bias"})
    if (base.ends_with(part)) return {name, base.substr(0, base.size() - part.size()), std::string(part.substr(1))};
  return {name, base, ""};
}

/// None where this part of a module does not take factors of that axis.
std::optional<Axis> axis_of(const AdapterTensor& tensor, const WeightFactors& layer) {
  const bool rows = layer.axis == Axis::Rows;
  if (tensor.part == "weight") return layer.axis;
  if (tensor.part == "lora_A.weight") return rows ? std::nullopt : std::optional(Axis::Columns);
  if (tensor.part == "lora_magnitude_vector" && !rows)
    fail(quoted(tensor.name) + " is the length of a decomposed update (DoRA), which the factors of " +
         quoted(layer.module) + "'s columns would change; merge the adapter into the original and fold that");
  return rows ? std::optional(Axis::Rows) : std::nullopt;
}

void check_named_for(const fs::path& folder, const std::vector<AdapterTensor>& tensors, const Checkpoint& checkpoint) {
  const bool any = std::ranges::any_of(
      tensors, [&](const AdapterTensor& t) { return !checkpoint.names_below(t.module + ".").empty(); });
  if (!any)
    fail(quoted(folder.string()) + ": no tensor is of a module of this checkpoint, such as " +
         quoted(tensors.empty() ? "" : tensors[0].module) + "; is it an adapter of another model?");
}

}  // namespace

std::vector<TensorFold> fold_adapter(const fs::path& folder, const OpenedModel& model, const FoldPlan& plan) {
  std::error_code ignored;
  if (!fs::is_regular_file(folder / "adapter_config.json", ignored))
    fail(quoted(folder.string()) + ": is no adapter (no adapter_config.json)");
  std::vector<AdapterTensor> tensors;
  for (const fs::path& path : find_weight_files(folder).shards) {
    const SafetensorsFile shard(path);
    for (const TensorInfo& info : shard.tensors()) tensors.push_back(parsed(info.name));
  }
  check_named_for(folder, tensors, model.checkpoint);
  std::vector<TensorFold> folds;
  for (const AdapterTensor& t : tensors) {
    for (const WeightFactors& layer : plan.layers)
      if (layer.module == t.module)
        if (const std::optional<Axis> axis = axis_of(t, layer)) folds.push_back({t.name, *axis, layer.exponents});
    const auto gain = std::ranges::find_if(plan.tensors, [&](const TensorFold& f) {
      return f.name == t.module + "." + t.part &&
             std::ranges::none_of(plan.layers, [&](const WeightFactors& l) { return l.module == t.module; });
    });
    if (gain != plan.tensors.end()) folds.push_back({t.name, gain->axis, gain->exponents});
  }
  return folds;
}

}  // namespace kvcal
