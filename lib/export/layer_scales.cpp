#include "export/layer_scales.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "artifact/delivery.h"
#include "base/number_text.h"
#include "servers/ascend_support.h"

namespace kvcal {
namespace {

const char* const kOtherModel =
    "; scales of another copy of the same model (an FP8 or AWQ one) are accepted when the scale file lists it: "
    "'kvcal export SCALES --model MEASURED --to scales --also-for CHECKPOINT -o NEW', else calibrate this one";

bool lists(const Artifact& artifact, const std::string& fingerprint) {
  const std::vector<std::string>& others = artifact.model.also_valid_for;
  return std::ranges::find(others, fingerprint) != others.end();
}

void check_same(const std::string& what, const std::string& of_scales, const std::string& of_model) {
  if (of_scales != of_model)
    fail("the scales are for " + what + " " + quoted(of_scales) + ", the checkpoint has " + quoted(of_model) +
         "; were they made for this model?");
}

void check_identity(const Artifact& artifact, const ModelIdentity& model) {
  check_same("architecture", artifact.model.architecture, model.spec.architecture);
  check_same("model_type", artifact.model_type, model.spec.model_type);
  const std::string& fingerprint = artifact.model.weights_fingerprint;
  if (lists(artifact, model.weights_fingerprint)) return;
  const auto shown = [](const std::string& hash) { return hash.substr(0, 12); };
  if (model.was(fingerprint))
    fail("the scales were measured before powers of two were folded into the weights of this folder (" +
         std::string(kFoldRecord) + "): calibrate the folded one; what was folded needs no scale");
  if (fingerprint != model.weights_fingerprint)
    fail("the scales were measured with other weights (fingerprint " + shown(fingerprint) + ", the checkpoint's is " +
         shown(model.weights_fingerprint) + ")" + kOtherModel);
  const std::string& config = artifact.model.config_sha256;
  if (config != model.config_sha256)
    fail("the scales were measured with another config.json (sha256 " + shown(config) + ", the checkpoint's is " +
         shown(model.config_sha256) + "); RoPE, norm and scaling settings change what is cached: calibrate this one");
}

void check_layer(const ArtifactLayer& l, const KvLayout& layout, const ModelIdentity& model) {
  const std::string where = "layer " + std::to_string(l.index);
  check_same(where + " named", l.name, module_name(model.tensor_prefix, layout));
  check_same(where + " of kind", l.kind, layout.kind);
  const auto shape = [](int64_t q, int64_t kv, int64_t k, int64_t v) {
    return std::to_string(q) + " query and " + std::to_string(kv) + " KV heads of " + std::to_string(k) + " and " +
           std::to_string(v);
  };
  check_same(where + " with", shape(l.n_heads, l.n_kv_heads, l.head_dim_k, l.head_dim_v),
             shape(layout.n_heads, layout.n_kv_heads, layout.head_dim_k, layout.head_dim_v));
}

/// Whose cache a layer reads: its own, an owner's, or none.
int owner_of(const ModelSpec& spec, const LayerSpec& layer) {
  if (layer.cache >= 0) return layer.index;
  return layer.shares_cache >= 0 ? spec.caches[static_cast<size_t>(layer.shares_cache)].layer : -1;
}

/// "model.layers.3.self_attn" of layer 3 for layer 7: "model.layers.7.self_attn".
std::string module_of(const ModelIdentity& model, const KvLayout& layout, int layer) {
  const std::string owner = module_name(model.tensor_prefix, layout);
  if (layer == layout.layer) return owner;
  const std::string from = "." + std::to_string(layout.layer) + ".";
  const size_t at = owner.find(from);
  if (at == owner.npos) fail("no layer number in the module name " + quoted(owner));
  return owner.substr(0, at) + "." + std::to_string(layer) + "." + owner.substr(at + from.size());
}

void check_positive(const LayerScales& scales) {
  const auto check = [&](const char* site, const std::vector<float>& values) {
    for (const float value : values)
      if (!(value > 0) || !std::isfinite(value))
        fail("layer " + std::to_string(scales.layer) + " " + site + ": the scale is " + float_text(value) +
             ", expected a positive number; servers would load it without a warning");
  };
  check("key", scales.key);
  check("value", scales.value);
  check("query", scales.query);
}

std::vector<float> values_of(const ArtifactSite& site, Granularity granularity) {
  if (granularity == Granularity::Tensor) return {site.scale};
  const std::vector<float>& scales = granularity == Granularity::Head ? site.scale_per_head : site.scale_per_channel;
  if (scales.empty()) fail("the scale file has no scales per " + std::string(name_of(granularity)));
  return scales;
}

void take_values(const ArtifactLayer& layer, Granularity granularity, LayerScales& scales) {
  scales.key = values_of(layer.key, granularity);
  scales.value = values_of(layer.value, granularity);
  // Queries have no scales per channel.
  scales.query = values_of(layer.query, granularity == Granularity::Channel ? Granularity::Tensor : granularity);
  check_positive(scales);
}

}  // namespace

void check_fits(const Artifact& artifact, const ModelIdentity& model) {
  check_identity(artifact, model);
  std::map<int, const KvLayout*> layouts;
  for (const KvLayout& layout : model.spec.caches) layouts[layout.layer] = &layout;
  for (const ArtifactLayer& layer : artifact.layers) {
    const auto layout = layouts.find(layer.index);
    if (layout == layouts.end())
      fail("the scale file has scales for layer " + std::to_string(layer.index) +
           ", which owns no cache in this model; a server would refuse the whole folder");
    check_layer(layer, *layout->second, model);
    layouts.erase(layout);
  }
  if (layouts.empty()) return;
  std::vector<int> missing;
  for (const auto& [layer, layout] : layouts) missing.push_back(layer);
  fail("the scale file has no scales for layer(s) " + layer_list(missing) +
       ", which a server would run at 1.0 without a warning; calibrate the whole model");
}

std::vector<LayerScales> layer_scales(const Artifact& artifact, const ModelIdentity& model, Granularity granularity) {
  std::map<int, const ArtifactLayer*> by_layer;
  for (const ArtifactLayer& layer : artifact.layers) by_layer[layer.index] = &layer;
  std::vector<LayerScales> all;
  for (const LayerSpec& spec : model.spec.layers) {
    const int owner = owner_of(model.spec, spec);
    if (owner < 0) continue;
    const ArtifactLayer& layer = *by_layer.at(owner);
    if (layer.is_mla()) continue;
    const int cache = spec.cache >= 0 ? spec.cache : spec.shares_cache;
    LayerScales scales;
    scales.layer = spec.index;
    scales.owner = owner;
    scales.module = module_of(model, model.spec.caches[static_cast<size_t>(cache)], spec.index);
    take_values(layer, granularity, scales);
    all.push_back(std::move(scales));
  }
  return all;
}

std::vector<LayerScales> mtp_layer_scales(const Artifact& artifact, const ModelIdentity& model,
                                          Granularity granularity) {
  std::vector<LayerScales> all;
  if (!model.with_mtp) return all;
  const KvLayout& layout = model.with_mtp->caches.back();
  for (const ArtifactLayer& layer : artifact.mtp_layers) {
    if (layer.is_mla()) continue;
    check_same("MTP layer", std::to_string(layer.index), std::to_string(layout.layer));
    check_layer(layer, layout, model);
    LayerScales scales;
    scales.layer = scales.owner = layer.index;
    scales.module = layer.name;
    take_values(layer, granularity, scales);
    all.push_back(std::move(scales));
  }
  return all;
}

std::vector<int> skipped_layers(const Artifact& artifact, const ExportOptions& options) {
  std::vector<int> layers = options.skip_layers;
  if (options.skip_keep16) std::ranges::copy(keep16_layers(artifact), std::back_inserter(layers));
  std::ranges::sort(layers);
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  for (const int layer : layers)
    if (std::ranges::find(artifact.layers, layer, &ArtifactLayer::index) == artifact.layers.end())
      fail("--skip-layers names layer " + std::to_string(layer) + ", which owns no cache");
  return layers;
}

void check_fitness(const Artifact& artifact, const ExportOptions& options) {
  if (options.allow_keep16) return;
  const std::vector<int> skipped = skipped_layers(artifact, options);
  std::vector<int> ruined;
  for (const int layer : keep16_layers(artifact))
    if (!std::ranges::binary_search(skipped, layer)) ruined.push_back(layer);
  if (ruined.empty()) return;
  const bool is_int8 = artifact.quantization.dtype == "int8";
  const std::string cache = is_int8 ? "an INT8 cache" : "an FP8 cache";
  if (ruined.size() == artifact.layers.size())
    fail("at these scales " + cache +
         " ruins the attention of every layer (keep16); leave the cache in the model's "
         "dtype, or accept the loss with --allow-keep16");
  fail("at these scales " + cache + " ruins the attention of layer(s) " + layer_list(ruined) +
       " (keep16); keep these layers in the model's dtype with '--skip-layers keep16' (" +
       (is_int8 ? "vLLM-Ascend" : "vLLM") + "), or accept the loss with --allow-keep16");
}

void check_can_keep(const Exporter& exporter, const std::vector<int>& kept, const std::string& architecture) {
  if (kept.empty() || exporter.keeps_none.empty()) return;
  const bool has_int8 = !ascend_support(architecture, AscendCache::Int8).versions.empty();
  const std::string other = exporter.is_assessed ? "use '--to vllm', or "
                            : has_int8           ? "use '--to vllm-ascend', or "
                                                 : "";
  fail("'--to " + std::string(exporter.name) + "': " + std::string(exporter.keeps_none) +
       " cannot keep single layers in the model's dtype, and layer(s) " + layer_list(kept) + " are to be kept; " +
       other + "keep the whole cache in the model's dtype");
}

void check_format(const Artifact& artifact, std::initializer_list<std::string_view> formats, const std::string& why) {
  const std::string& format = artifact.quantization.dtype;
  if (std::ranges::find(formats, format) != formats.end()) return;
  fail("the scales are for " + format + ": " + why + "; solve again: 'kvcal solve STATS --dtype " +
       std::string(*formats.begin()) + "'");
}

void check_per_tensor(const Artifact& artifact, const std::string& who) {
  if (const Granularity granularity = artifact.quantization.granularity; granularity != Granularity::Tensor)
    fail("the scale file has one scale per " + std::string(name_of(granularity)) + ", " + who +
         " takes one per layer; solve again: 'kvcal solve STATS --granularity tensor'");
}

void check_no_channels(const Artifact& artifact, const std::string& who) {
  if (artifact.quantization.granularity == Granularity::Channel)
    fail("the scale file has one scale per channel, " + who +
         " takes one per layer or per head; solve again: 'kvcal solve STATS --granularity head'");
}

std::string layer_list(const std::vector<int>& layers) {
  return ranges_text(std::vector<int64_t>(layers.begin(), layers.end()));
}

}  // namespace kvcal
