// A cache in FP8 at scale 1.0, as servers have it without scales and ModelOpt's fp8_cast declares it: right or wrong by
// what was measured.
#include <algorithm>

#include "base/number_text.h"
#include "check/artifact_checks.h"

namespace kvcal {
namespace {

/// "rel 0.026 of at most 0.125, measured"
std::string figure_of(const DamageAtScale& damage, const AssessmentLimits& limits) {
  const std::optional<double> value = deciding_value(damage), limit = limit_of(limits, damage.decided_by);
  return std::string(name_of(damage.decided_by)) + (value ? " " + formatted("%.3g", *value) : "") +
         (limit ? " of at most " + formatted("%.3g", *limit) : "") +
         (damage.by == Basis::Attention ? ", measured" : ", predicted");
}

}  // namespace

std::string_view fault_at_one(const ArtifactSite& site, double max) {
  if (above(site.absmax, max)) return "S14";
  if (site.assessment.scale == ScaleNeed::Needed) return "S28";
  if (site.assessment.at_one.fitness == Fitness::Keep16) return "S16";
  return above(site.absmax, 0.9 * max) ? "S15" : "";
}

std::string text_at_one(const Artifact& artifact, const ArtifactSite& site) {
  const AssessmentLimits& limits = artifact.quantization.limits;
  const Assessment& a = site.assessment;
  std::string text = figure_of(a.at_one, limits);
  if (a.scale == ScaleNeed::Needed) text += "; at " + number_text(site.scale) + " " + figure_of(a.at_scale, limits);
  return text;
}

void check_at_one(const Artifact& artifact, Report& report) {
  report.evaluated({"S27"});
  std::vector<int64_t> safe;
  std::string worst_place;
  const ArtifactSite* worst = nullptr;
  for (const auto& [layer, path] : listed_layers(artifact)) {
    const std::vector<NamedSite> sites = cached_sites(layer);
    const auto is_harmed = [&](const NamedSite& s) {
      return !fault_at_one(*s.site, artifact.quantization.max).empty();
    };
    if (std::ranges::any_of(sites, is_harmed)) continue;
    safe.push_back(layer.index);
    for (const NamedSite& s : sites) {
      if (worst && s.site->assessment.at_one.severity <= worst->assessment.at_one.severity) continue;
      worst = s.site;
      worst_place = "layer " + row_name(artifact, layer) + " " + s.name;
    }
  }
  if (!worst) return;
  const bool all = safe.size() == listed_layers(artifact).size();
  report.add(
      "S27", "", all ? "the whole cache is fine at 1.0" : "the cache is fine at 1.0 in layer(s) " + ranges_text(safe),
      "", "most changed is " + worst_place + ", " + figure_of(worst->assessment.at_one, artifact.quantization.limits));
}

}  // namespace kvcal
