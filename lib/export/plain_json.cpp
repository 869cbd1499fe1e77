// --to json: a plain map from attention modules to scales, for scripts.
#include <algorithm>
#include <iterator>

#include "artifact/json_text.h"
#include "base/read_file.h"
#include "export/layer_scales.h"
#include "export/targets.h"

namespace kvcal {
namespace {

constexpr size_t kFileBytes = size_t{64} << 20;

Json one_or_all(const std::vector<float>& values) {
  if (values.size() == 1) return json_number(values.front());
  Json all = Json::array();
  for (const float value : values) all.push_back(json_number(value));
  return all;
}

void add(ExportPlan& plan, const LayerScales& layer, const char* site, const std::vector<float>& values) {
  plan.scales.push_back({layer.layer, site, layer.module, values});
}

void add_latent(const ExportInput& input, Json& modules, ExportPlan& plan) {
  for (const ArtifactLayer& layer : input.artifact.layers) {
    if (!layer.is_mla()) continue;
    modules[layer.name] = {{"layer", layer.index}, {"latent", json_number(layer.latent.scale)}};
    plan.scales.push_back({layer.index, "latent", layer.name, {layer.latent.scale}});
  }
}

ExportPlan plan(const ExportInput& input) {
  ExportPlan result;
  Json modules = Json::object();
  const Granularity granularity = input.artifact.quantization.granularity;
  std::vector<LayerScales> layers = layer_scales(input.artifact, input.model, granularity);
  std::ranges::copy(mtp_layer_scales(input.artifact, input.model, granularity), std::back_inserter(layers));
  for (const LayerScales& layer : layers) {
    Json& entry = modules[layer.module] = {{"layer", layer.layer}};
    if (layer.owner != layer.layer) entry["shares_cache_of"] = layer.owner;
    entry["key"] = one_or_all(layer.key);
    entry["value"] = one_or_all(layer.value);
    if (input.options.query) entry["query"] = one_or_all(layer.query);
    add(result, layer, "key", layer.key);
    add(result, layer, "value", layer.value);
    if (input.options.query) add(result, layer, "query", layer.query);
  }
  add_latent(input, modules, result);
  Json file = {{"convention", "real = stored * scale"},
               {"dtype", input.artifact.quantization.dtype},
               {"model_type", input.artifact.model_type},
               {"weights_fingerprint", input.model.weights_fingerprint},
               {"modules", modules}};
  if (const std::vector<int> kept = skipped_layers(input.artifact, input.options); !kept.empty())
    file["layers_in_16_bits"] = kept;
  result.files = {{"", json_text(file)}};
  result.serving.notes = {"no server reads this file; it is for scripts"};
  return result;
}

void read_back(const ExportInput&, const ExportPlan& plan, const std::filesystem::path& written) {
  const Json file = parse_json(read_file(written, kFileBytes));
  for (const PlannedScale& s : plan.scales) {
    const Json* value = find_member(file.at("modules").at(s.name), s.site);
    if (!value) fail(quoted(s.name) + " has no " + s.site);
    std::vector<float> found;
    for (const Json& number : value->is_array() ? *value : Json::array({*value})) found.push_back(number.get<float>());
    if (found != s.values) fail(quoted(s.name) + " " + s.site + " has another value than intended");
  }
}

}  // namespace

Exporter plain_json_exporter() {
  return {"json", "a plain map from attention modules to scales, for scripts", false, plan, read_back};
}

}  // namespace kvcal
