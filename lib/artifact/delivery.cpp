#include "artifact/delivery.h"

#include <algorithm>
#include <cmath>

#include "base/number_text.h"

namespace kvcal {
namespace {

bool is_one(float scale) { return scale == 1; }

bool departs(const ArtifactSite& site) { return site.scale != 1 || !std::ranges::all_of(site.scales(), is_one); }

std::string why(const ArtifactSite& site) {
  std::string text;
  for (const Departure departure : site.departs.value_or(std::vector<Departure>())) {
    text += text.empty() ? ": " : ", ";
    switch (departure) {
      case Departure::Clipped:
        text += "1.0 would clip";
        break;
      case Departure::Headroom:
        text += "for headroom";
        break;
      case Departure::SmallValues:
        text += "1.0 would lose small values";
        break;
    }
  }
  return text;
}

/// "4", "0.5", "2^-11"
std::string scale_text(float scale) {
  int exponent = 0;
  constexpr float kSmall = 0x1p-4F;
  if (scale < kSmall && std::frexp(scale, &exponent) == 0.5F) return "2^" + std::to_string(exponent - 1);
  return formatted("%.6g", double{scale});
}

/// "4", "2 of 8 heads"
std::string how(const ArtifactSite& site) {
  const std::vector<float> scales = site.scales();
  if (scales.size() == 1) return scale_text(scales[0]);
  const auto n = std::ranges::count_if(scales, [](float x) { return !is_one(x); });
  return std::to_string(n) + " of " + std::to_string(scales.size()) +
         (site.scale_per_channel.empty() ? " heads" : " channels");
}

/// Of a file in which the cache has 1.0 everywhere.
std::string as_it_is(const Artifact& artifact) {
  const std::vector<DepartingSite> queries = departing_sites(artifact, true);
  std::string text = queries.empty() ? "every scale is 1.0: " : "every scale of the cache is 1.0: ";
  if (artifact.quantization.dtype.starts_with("fp8") && keep16_layers(artifact).empty())
    text += "serve the checkpoint as it is with --kv-cache-dtype fp8_e4m3; ";
  text += "nothing depends on whether the server loads scales";
  if (!queries.empty()) text += ", but queries where it computes attention in FP8: " + text_of(artifact, queries);
  return text + ".";
}

}  // namespace

std::vector<DepartingSite> departing_sites(const Artifact& artifact, bool queries) {
  std::vector<DepartingSite> found;
  for (const ListedLayer& listed : listed_layers(artifact)) {
    const std::vector<NamedSite> sites =
        queries ? std::vector{NamedSite{"query", &listed.layer.query}} : cached_sites(listed.layer);
    for (const NamedSite& site : sites)
      if (departs(*site.site)) found.push_back({&listed.layer, site});
  }
  return found;
}

std::vector<int> keep16_layers(const Artifact& artifact) {
  std::vector<int> layers;
  for (const ArtifactLayer& layer : artifact.layers)
    if (std::ranges::any_of(cached_sites(layer),
                            [](const NamedSite& s) { return s.site->assessment.fp8 == Fitness::Keep16; }))
      layers.push_back(layer.index);
  std::ranges::sort(layers);
  return layers;
}

bool keeps_whole_cache(const Artifact& artifact) { return keep16_layers(artifact).size() == artifact.layers.size(); }

std::vector<int64_t> most_changed_layers(const Artifact& artifact) {
  constexpr double kFelt = 0.5;
  constexpr size_t kMost = 4;
  const std::vector<int> kept = keep16_layers(artifact);
  std::vector<std::pair<double, int>> changed;
  for (const ArtifactLayer& layer : artifact.layers) {
    if (std::ranges::binary_search(kept, layer.index)) continue;
    double most = 0;
    for (const NamedSite& s : cached_sites(layer)) most = std::max(most, s.site->assessment.at_scale.severity);
    if (most > kFelt) changed.emplace_back(-most, layer.index);
  }
  std::ranges::sort(changed);
  changed.resize(std::min(kMost, changed.size()));
  std::vector<int64_t> layers;
  for (const auto& [severity, layer] : changed) layers.push_back(layer);
  std::ranges::sort(layers);
  return layers;
}

bool serves_as_it_is(const Artifact& artifact) { return departing_sites(artifact, false).empty(); }

std::string text_of(const Artifact& artifact, const std::vector<DepartingSite>& sites) {
  constexpr size_t kShown = 6;
  std::string text;
  for (size_t i = 0; i < std::min(kShown, sites.size()); ++i) {
    const auto& [layer, site] = sites[i];
    text += (i > 0 ? ", layer " : "layer ") + row_name(artifact, *layer) + " " + site.name + " (" + how(*site.site) +
            why(*site.site) + ")";
  }
  if (sites.size() > kShown) text += ", " + std::to_string(sites.size() - kShown) + " more";
  return text;
}

std::string delivery_text(const Artifact& artifact) {
  const std::vector<DepartingSite> sites = departing_sites(artifact, false);
  if (sites.empty()) return as_it_is(artifact);
  if (!artifact.quantization.seeks_one()) return "";
  return "not 1.0: " + text_of(artifact, sites) + "; " +
         (sites.size() == 1 ? "this alone depends" : "only these depend") + " on whether the server loads scales.";
}

}  // namespace kvcal
