// A cache in FP8 at scale 1.0, as servers have it without scales and ModelOpt's fp8_cast declares it: right or wrong by
// what was measured.
#include <algorithm>

#include "base/number_text.h"
#include "check/artifact_checks.h"

namespace kvcal {
namespace {

/// Noise and flushed tokens are always predicted.
bool is_measured(const DamageAtScale& damage) {
  return damage.by == Basis::Attention && damage.decided_by != Figure::Noise &&
         damage.decided_by != Figure::FlushedTokens;
}

/// "rel 0.026 of at most 0.125, measured"
std::string figure_of(const DamageAtScale& damage, const AssessmentLimits& limits) {
  const std::optional<double> value = deciding_value(damage), limit = limit_of(limits, damage.decided_by);
  return std::string(name_of(damage.decided_by)) + (value ? " " + formatted("%.3g", *value) : "") +
         (limit ? " of at most " + formatted("%.3g", *limit) : "") +
         (is_measured(damage) ? ", measured" : ", predicted");
}

/// "all measured layers are fine at 1.0", "layer(s) 0-2, mtp are fine at 1.0"
std::string safe_text(const Artifact& artifact, const std::vector<const ArtifactLayer*>& safe) {
  if (safe.size() == listed_layers(artifact).size()) return "all measured layers are fine at 1.0";
  std::vector<int64_t> numbers;
  bool mtp = false;
  for (const ArtifactLayer* layer : safe)
    if (artifact.model.is_mtp(layer->index))
      mtp = true;
    else
      numbers.push_back(layer->index);
  const std::string beside = numbers.empty() || !mtp ? "" : ", ";
  return "fine at 1.0: layer(s) " + (numbers.empty() ? "" : ranges_text(numbers)) + beside + (mtp ? "mtp" : "");
}

}  // namespace

std::string_view fault_at_one(const ArtifactSite& site, double max) {
  if (above(site.absmax, max)) return "S14";
  if (site.assessment.scale == ScaleNeed::Needed) return "S28";
  if (site.assessment.at_one.fitness == Fitness::Keep16) return "S16";
  return above(site.absmax, kMostInUse * max) ? "S15" : "";
}

std::string text_at_one(const Artifact& artifact, const ArtifactSite& site) {
  const AssessmentLimits& limits = artifact.quantization.limits;
  const Assessment& a = site.assessment;
  std::string text = figure_of(a.at_one, limits);
  if (a.scale == ScaleNeed::Needed && a.at_scale.severity > 0)
    text += "; " + formatted("%.3g", a.at_one.severity / a.at_scale.severity) + " times the error at " +
            number_text(site.scale);
  return text;
}

void check_at_one(const Artifact& artifact, Report& report) {
  report.evaluated({"S27"});
  std::vector<const ArtifactLayer*> safe;
  std::string worst_place;
  const ArtifactSite* worst = nullptr;
  for (const auto& [layer, path] : listed_layers(artifact)) {
    const std::vector<NamedSite> sites = cached_sites(layer);
    const auto is_harmed = [&](const NamedSite& s) {
      return !fault_at_one(*s.site, artifact.quantization.max).empty();
    };
    const auto is_judged = [](const NamedSite& s) { return deciding_value(s.site->assessment.at_one).has_value(); };
    if (std::ranges::any_of(sites, is_harmed) || !std::ranges::all_of(sites, is_judged)) continue;
    safe.push_back(&layer);
    for (const NamedSite& s : sites) {
      if (worst && s.site->assessment.at_one.severity <= worst->assessment.at_one.severity) continue;
      worst = s.site;
      worst_place = "layer " + row_name(artifact, layer) + " " + s.name;
    }
  }
  if (!worst) return;
  report.add(
      "S27", "", safe_text(artifact, safe), "",
      "most changed is " + worst_place + ", " + figure_of(worst->assessment.at_one, artifact.quantization.limits));
}

}  // namespace kvcal
