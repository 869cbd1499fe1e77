// A scale file against the checkpoint it is to be served with.
#include <algorithm>
#include <map>

#include "check/artifact_checks.h"
#include "stats/state_statistics.h"

namespace kvcal {
namespace {

void check_identity(const Artifact& a, const ModelIdentity& model, Report& report) {
  report.compare("M01", "model.config_sha256", "the hash of the checkpoint's config.json", model.config_sha256,
                 a.model.config_sha256);
  if (std::ranges::find(a.model.also_valid_for, model.weights_fingerprint) == a.model.also_valid_for.end())
    report.compare(model.was(a.model.weights_fingerprint) ? "M04" : "M02", "model.weights_fingerprint",
                   "the fingerprint of the checkpoint's weights", model.weights_fingerprint,
                   a.model.weights_fingerprint);
  report.compare("M03", "model.architecture", "the architecture", model.spec.architecture, a.model.architecture);
  report.compare("M03", "model_type", "the model type", model.spec.model_type, a.model_type);
  report.compare("M03", "model.n_layers", "the number of layers", std::to_string(model.spec.layers.size()),
                 std::to_string(a.model.n_layers));
}

void check_shape(const ArtifactLayer& l, const KvLayout& layout, const ModelIdentity& model, const std::string& path,
                 Report& report) {
  report.compare("M05", path + ".name", "the module that owns the cache", module_name(model.tensor_prefix, layout),
                 l.name);
  const auto number = [&](const char* member, int64_t expected, int64_t actual) {
    report.compare("M06", path + "." + member, "the layer's shape", std::to_string(expected), std::to_string(actual));
  };
  report.compare("M06", path + ".kind", "the kind of cache", layout.kind, l.kind);
  number("n_heads", layout.n_heads, l.n_heads);
  number("n_kv_heads", layout.n_kv_heads, l.n_kv_heads);
  if (!layout.is_mla() || !l.is_mla())
    number("head_dim_k", layout.head_dim_k, l.head_dim_k);
  else if (l.head_dim_k != layout.head_dim_k)
    report.add("C06", path + ".head_dim_k", "the width of the measured row",
               std::to_string(layout.head_dim_v) + " latent and " +
                   std::to_string(layout.head_dim_k - layout.head_dim_v) + " RoPE channels",
               std::to_string(l.head_dim_k));
  number("head_dim_v", layout.head_dim_v, l.head_dim_v);
}

/// A layer of the file that owns no cache in the model: of another kind, or one that reads another layer's.
void report_surplus(const ArtifactLayer& l, const ModelSpec& spec, const std::string& path, Report& report) {
  const auto layer =
      std::find_if(spec.layers.begin(), spec.layers.end(), [&](const LayerSpec& s) { return s.index == l.index; });
  const bool shares = layer != spec.layers.end() && layer->kind == LayerKind::Attention;
  report.add(shares ? "C08" : "S07", path, "layer " + std::to_string(l.index), "no scales",
             shares                       ? "scales, although it reads the cache of another layer"
             : layer == spec.layers.end() ? "scales, although the model has no such layer"
                                          : "scales, although it is a " + std::string(name_of(layer->kind)));
}

void check_layers_with(const Artifact& a, const ModelIdentity& model, Report& report) {
  std::map<int, const KvLayout*> layouts;
  for (const KvLayout& layout : model.spec.caches) layouts[layout.layer] = &layout;
  for (size_t i = 0; i < a.layers.size(); ++i) {
    const std::string path = "layers[" + std::to_string(i) + "]";
    const auto layout = layouts.find(a.layers[i].index);
    if (layout == layouts.end()) {
      report_surplus(a.layers[i], model.spec, path, report);
      continue;
    }
    check_shape(a.layers[i], *layout->second, model, path, report);
    layouts.erase(layout);
  }
  for (const auto& [layer, layout] : layouts)
    report.add("S07", "layers", "layer " + std::to_string(layer), "scales for its cache", "none");
}

/// A checkpoint without the MTP layer drafts no tokens, and its scales do no harm.
void check_mtp_layers(const Artifact& a, const ModelIdentity& model, Report& report) {
  if (!model.with_mtp) return;
  const KvLayout& cache = model.with_mtp->caches.back();
  if (a.mtp_layers.empty() && !cache.is_mla())
    report.add("V10", "mtp_layers", module_name(model.tensor_prefix, cache), "scales for its cache", "none");
  for (size_t i = 0; i < a.mtp_layers.size(); ++i)
    check_shape(a.mtp_layers[i], cache, model, "mtp_layers[" + std::to_string(i) + "]", report);
}

void check_layers_without(const Artifact& a, const ModelIdentity& model, Report& report) {
  for (size_t i = 0; i < a.layers_without_kv.size(); ++i) {
    const LayerInfo& layer = a.layers_without_kv[i];
    if (layer.index < 0 || layer.index >= static_cast<int64_t>(model.spec.layers.size())) continue;  // S07, M03
    const LayerSpec& spec = model.spec.layers[static_cast<size_t>(layer.index)];
    if (spec.cache >= 0) continue;  // S07
    const std::string path = "layers_without_kv[" + std::to_string(i) + "].";
    report.compare("M07", path + "kind", "the kind of the layer", std::string(name_of(spec.kind)), layer.kind);
    const bool shares = spec.shares_cache >= 0;
    report.compare("M07", path + "shares_kv_with", "the layer whose cache it uses",
                   shares ? std::to_string(model.spec.caches[static_cast<size_t>(spec.shares_cache)].layer) : "none",
                   layer.shares_kv_with ? std::to_string(*layer.shares_kv_with) : "none");
  }
}

/// A file without any is of a program that counted none.
void check_states(const Artifact& a, const ModelIdentity& model, Report& report) {
  const std::vector<StateLayout> layouts = state_layouts(model.spec);
  for (size_t i = 0; i < a.state_layers.size(); ++i) {
    const ArtifactState& s = a.state_layers[i];
    const std::string path = "state_layers[" + std::to_string(i) + "]";
    const auto layout = std::ranges::find(layouts, s.index, &StateLayout::layer);
    if (layout == layouts.end()) {
      report.add("M07", path + ".index", "the kind of layer " + std::to_string(s.index), "one without such a state",
                 s.kind);
      continue;
    }
    report.compare("M07", path + ".kind", "the kind of the layer", layout->kind, s.kind);
    const auto number = [&](const char* member, int64_t expected, int64_t actual) {
      report.compare("M06", path + "." + member, "the state's shape", std::to_string(expected), std::to_string(actual));
    };
    number("heads", layout->heads, s.heads);
    number("keys", layout->keys, s.keys);
    number("values", layout->values, s.values);
  }
}

}  // namespace

void check_model(const Artifact& a, const ModelIdentity& model, Report& report) {
  report.evaluated({"C06", "C08", "M01", "M02", "M03", "M04", "M05", "M06", "M07", "S07", "V10"});
  check_identity(a, model, report);
  check_layers_with(a, model, report);
  check_layers_without(a, model, report);
  check_mtp_layers(a, model, report);
  check_states(a, model, report);
}

}  // namespace kvcal
