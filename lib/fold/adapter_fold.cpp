#include "fold/adapter_fold.h"

#include <algorithm>

#include "base/error.h"
#include "checkpoint/fold_mark.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/text_prefix.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "base_model.model.";
constexpr const char* kConfig = "adapter_config.json";

/// Longer ones first. With its biases an adapter has the base's under "base_layer".
constexpr std::string_view kParts[] = {
    ".lora_A.weight",     ".lora_B.weight",   ".lora_B.bias", ".lora_magnitude_vector",
    ".base_layer.weight", ".base_layer.bias", ".weight",      ".bias"};

/// Ways to begin an adapter that leave the base's weights as they are.
constexpr std::string_view kPlainStarts[] = {"gaussian", "eva", "orthogonal"};

/// A tensor of an adapter: the base's module that it belongs to, and what it is of that.
struct AdapterTensor {
  std::string name;    // in the adapter
  std::string module;  // as the checkpoint has it: "model.layers.0.self_attn.q_proj"
  std::string part;    // "lora_A.weight", "weight", ...; what is not known is part of the module's name
};

AdapterTensor parsed(const std::string& name, const std::string& prefix) {
  std::string base = name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name;
  if (const std::string_view below = below_text_prefix(base); !below.empty()) base = prefix + std::string(below);
  for (const std::string_view part : kParts)
    if (base.ends_with(part)) return {name, base.substr(0, base.size() - part.size()), std::string(part.substr(1))};
  return {name, base, ""};
}

/// None where this part of a module does not take factors of that axis.
std::optional<Axis> axis_of(const AdapterTensor& tensor, const WeightFactors& layer) {
  const bool rows = layer.axis == Axis::Rows;
  if (tensor.part == "weight" || tensor.part == "base_layer.weight") return layer.axis;
  if (tensor.part == "lora_A.weight") return rows ? std::nullopt : std::optional(Axis::Columns);
  if (tensor.part == "lora_magnitude_vector" && !rows)
    fail(quoted(tensor.name) + " is the length of a decomposed update (DoRA), which the factors of " +
         quoted(layer.module) + "'s columns would change; merge the adapter into the original and fold that");
  return rows ? std::optional(Axis::Rows) : std::nullopt;
}

bool is_true(const Json& config, const char* key) {
  const Json* value = find_member(config, key);
  return value && value->is_boolean() && value->get<bool>();
}

/// Other kinds of adapters, and such as change the base or its layers when they are loaded.
void check_kind(const Json& config) {
  if (const std::string kind = get_string(config, "peft_type"); kind != "LORA")
    fail("is an adapter of the kind " + quoted(kind) + ", which factors of weights cannot follow; only LORA is folded");
  const Json* start = find_member(config, "init_lora_weights");
  if (start && start->is_string() &&
      std::ranges::find(kPlainStarts, start->get<std::string>()) == std::end(kPlainStarts))
    fail("begins by " + quoted(start->get<std::string>()) +
         " ('init_lora_weights'), which may change the base's weights; merge it into the original and fold that");
  const Json* layers = find_member(config, "layer_replication");
  if ((layers && !layers->is_null()) || is_true(config, "use_qalora"))
    fail(
        "repeats layers or pools inputs ('layer_replication', 'use_qalora'); merge it into the original and fold that");
}

void check_named_for(const std::vector<AdapterTensor>& tensors, const OpenedModel& model) {
  const auto is_there = [&](const AdapterTensor& t) { return !model.checkpoint.names_below(t.module + ".").empty(); };
  const auto of_attention = [&](const AdapterTensor& t) {
    return std::ranges::any_of(model.spec().layers, [&](const LayerSpec& layer) {
      const std::string& module = layer.attention.module;
      return !module.empty() && t.module.starts_with(model.weights.prefix.model + module);
    });
  };
  const std::string another = " of this checkpoint; is it an adapter of another model?";
  if (std::ranges::none_of(tensors, is_there))
    fail("no tensor is of a module" + another + (tensors.empty() ? "" : " The first is " + quoted(tensors[0].name)));
  for (const AdapterTensor& t : tensors)
    if (of_attention(t) && !is_there(t)) fail(quoted(t.name) + " is of no module" + another);
}

/// An adapter of a model of other sizes may have as many elements.
void check_lines(const TensorInfo& info, const TensorFold& fold) {
  const auto n = static_cast<int64_t>(fold.exponents.size());
  const int64_t lines = info.shape.rank() == 0 ? 1 : fold.axis == Axis::Rows ? info.shape[0] : info.shape[-1];
  if (lines != n && info.shape.elements() != n)
    fail("tensor " + quoted(info.name) + " is " + str(info) + ", the model's layer has " + std::to_string(n) +
         (fold.axis == Axis::Rows ? " rows" : " columns") + "; is it an adapter of another model?");
}

/// What a tensor of the adapter is multiplied by: with the factors of its module, or as the gain that it replaces.
std::vector<TensorFold> folds_of(const AdapterTensor& t, const FoldPlan& plan) {
  std::vector<TensorFold> folds;
  bool of_layer = false;
  for (const WeightFactors& layer : plan.layers) {
    if (layer.module != t.module) continue;
    of_layer = true;
    if (const std::optional<Axis> axis = axis_of(t, layer)) folds.push_back({t.name, *axis, layer.exponents});
  }
  if (of_layer) return folds;
  for (const TensorFold& gain : plan.tensors)
    if (gain.name == t.module + "." + t.part) folds.push_back({t.name, gain.axis, gain.exponents, gain.one_plus});
  return folds;
}

}  // namespace

fs::path adapter_weights(const fs::path& folder) {
  std::error_code ignored;
  fs::path weights = folder / "adapter_model.safetensors";
  if (!fs::is_regular_file(folder / kConfig, ignored))
    fail(quoted(folder.string()) + ": is no adapter (no " + kConfig + ")");
  if (!fs::is_regular_file(weights, ignored))
    fail(quoted(folder.string()) +
         ": has no adapter_model.safetensors (adapter_model.bin can run code when read; load " +
         "and save it with peft)");
  return weights;
}

std::vector<TensorFold> fold_adapter(const fs::path& folder, const OpenedModel& model, const FoldPlan& plan) {
  if (std::error_code ignored; fs::exists(folder / kFoldRecord, ignored))
    fail(quoted(folder.string()) + ": is folded already (" + kFoldRecord + "); give the adapter as it was trained");
  const SafetensorsFile weights(adapter_weights(folder));
  return while_doing(quoted(folder.string()), [&] {
    check_kind(read_json_file(folder / kConfig));
    std::vector<AdapterTensor> tensors;
    for (const TensorInfo& info : weights.tensors()) tensors.push_back(parsed(info.name, model.weights.prefix.model));
    check_named_for(tensors, model);
    std::vector<TensorFold> folds;
    for (const AdapterTensor& t : tensors) std::ranges::move(folds_of(t, plan), std::back_inserter(folds));
    for (const TensorFold& f : folds) check_lines(*weights.find(f.name), f);
    for (const TensorFold& f : folds)
      if (!is_exact(weights, f, Subnormals::Refuse))
        fail("numbers of " + quoted(f.name) + " would leave the normal range of " +
             std::string(name_of(weights.find(f.name)->dtype)));
    return folds;
  });
}

}  // namespace kvcal
