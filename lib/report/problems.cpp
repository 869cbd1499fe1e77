#include "report/problems.h"

#include <algorithm>
#include <string_view>
#include <tuple>

#include "report/sections.h"

namespace kvcal {

std::vector<ListedSite> listed_sites(const Artifact& artifact) {
  std::vector<ListedSite> sites;
  for (const ListedLayer& listed : listed_layers(artifact))
    for (const NamedSite& site : sites_of(listed.layer)) sites.push_back({&listed.layer, site});
  return sites;
}

bool needs_something(const Assessment& assessment) { return urgency(assessment.scale, assessment.fp8) > 0; }

// A scale that is needed comes between: it is enough to load it.
int urgency(ScaleNeed scale, Fitness fp8) {
  if (fp8 == Fitness::Keep16) return 3;
  if (scale == ScaleNeed::Needed) return 2;
  return fp8 == Fitness::Fine ? 0 : 1;
}

std::vector<ListedSite> problem_sites(const Artifact& artifact) {
  std::vector<ListedSite> sites = listed_sites(artifact);
  std::erase_if(sites, [](const ListedSite& s) { return !needs_something(s.site.site->assessment); });
  // Where only the scale is at issue, what happens without it is what tells sites apart.
  std::ranges::stable_sort(sites, {}, [](const ListedSite& s) {
    const Assessment& a = s.site.site->assessment;
    const double severity = a.fp8 == Fitness::Fine ? a.at_one.severity : a.at_scale.severity;
    return std::tuple(std::string_view(s.site.name) == "query", -urgency(a.scale, a.fp8), -severity);
  });
  return sites;
}

namespace {

/// The worst of what the layer keeps: keys and values, or latent rows.
struct LayerAnswers {
  ScaleNeed scale = ScaleNeed::Any;
  Fitness fp8 = Fitness::Fine;
};

LayerAnswers answers_of(const ArtifactLayer& layer) {
  LayerAnswers worst;
  for (const NamedSite& site : cached_sites(layer)) {
    worst.scale = std::max(worst.scale, site.site->assessment.scale);
    worst.fp8 = std::max(worst.fp8, site.site->assessment.fp8);
  }
  return worst;
}

std::string cell(const ReportInput& input, const ArtifactLayer& layer) {
  const LayerAnswers a = answers_of(layer);
  std::string signs;
  if (a.scale != ScaleNeed::Any) signs += sign_of(a.scale);
  if (a.fp8 != Fitness::Fine || signs.empty()) signs += sign_of(a.fp8);
  return "<li class=\"v " + std::string(urgent_name(a.scale, a.fp8)) + "\" title=\"" + layer_title(input, layer) +
         ": scale " + std::string(name_of(a.scale)) + ", fp8 " + std::string(name_of(a.fp8)) + "\"><span>" +
         row_name(input.artifact, layer) + "</span> " + signs + "</li>";
}

}  // namespace

std::string layer_map(const ReportInput& input) {
  std::string cells;
  for (const ListedLayer& listed : listed_layers(input.artifact)) cells += cell(input, listed.layer);
  return "<ul class=\"map\" aria-label=\"Layers with their answers\">" + cells + "</ul>\n";
}

}  // namespace kvcal
