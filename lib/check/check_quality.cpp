// Files that are right, and still deserve a word: notes and warnings.
#include <algorithm>
#include <cmath>

#include "check/artifact_checks.h"

namespace kvcal {
namespace {

void check_sinks(const ArtifactSite& site, const std::string& path, Report& report) {
  constexpr size_t kFirstFour = 3;  // buckets of positions 0, 1, 2 and 3
  const std::vector<float>& by_position = site.absmax_by_position;
  if (by_position.size() <= kFirstFour) return;
  const float later = *std::max_element(by_position.begin() + kFirstFour, by_position.end());
  if (later > 0 && site.absmax > 8 * later)
    report.add("K02", path + ".absmax_by_position", "the largest magnitude after the first four positions",
               "at least an eighth of " + number_text(site.absmax), number_text(later));
}

void check_site(const Artifact& a, const ArtifactSite& site, bool is_cached, const std::string& path, Report& report) {
  const AssessmentLimits& limits = a.quantization.limits;
  check_sinks(site, path, report);
  if (site.growth.position && *site.growth.position > 0.5F)
    report.add("K05", path + ".growth.position", "the growth at the longest positions", "at most 0.5",
               number_text(*site.growth.position));
  if (site.growth.depends_on)
    report.add("K09", path + ".growth.depends_on", "what the largest magnitude depends on", "more than one prompt",
               "prompt " + quoted(site.growth.depends_on->on) + " alone");
  else if (!site.growth.converged)
    report.add("K09", path + ".growth", "the growth with the last prompts and by packing them differently",
               "at most " + number_text(limits.growth), "higher, or unknown");
  const DamageAtScale& damage = site.assessment.at_scale;
  if (!is_cached || damage.fitness == Fitness::Fine) return;
  const std::optional<double> limit = limit_of(limits, damage.decided_by), value = deciding_value(damage);
  report.add("S16", path + ".assessment.fp8", "the damage at the scale, " + std::string(name_of(damage.decided_by)),
             limit ? "at most " + number_text(*limit) : "less",
             (limit && value ? number_text(*value) + ", " : "") + "'" + std::string(name_of(damage.fitness)) + "'");
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Sites of one name, "key", "value" or "latent", against each other.
void check_outliers(const Artifact& a, std::string_view name, Report& report) {
  constexpr size_t kEnoughLayers = 4;
  std::vector<double> scales;
  std::vector<size_t> layers;
  for (size_t i = 0; i < a.layers.size(); ++i)
    for (const NamedSite& s : cached_sites(a.layers[i]))
      if (s.name == name) {
        scales.push_back(s.site->scale);
        layers.push_back(i);
      }
  if (layers.size() < kEnoughLayers) return;
  report.evaluated({"S24"});
  const double usual = median(scales);
  for (size_t i = 0; i < scales.size(); ++i)
    if (scales[i] > 16 * usual || scales[i] < usual / 16)
      report.add("S24", "layers[" + std::to_string(layers[i]) + "]." + std::string(name) + ".scale",
                 "the scale compared with the other layers'",
                 number_text(usual / 16) + " to " + number_text(usual * 16), number_text(scales[i]));
}

}  // namespace

bool is_short_for(int64_t longest, int64_t max_model_len) { return max_model_len / 4 > longest; }

void check_quality(const Artifact& a, Report& report) {
  report.evaluated({"K02", "K05", "K09", "S16", "S23"});
  for (const auto& [layer, path] : listed_layers(a))
    for (const NamedSite& s : sites_of(layer))
      check_site(a, *s.site, s.site != &layer.query, path + "." + s.name, report);
  const int64_t longest = a.calibration.longest;
  if (is_short_for(longest, a.quantization.max_model_len))
    report.add("S23", "calibration.longest", "the longest sequence measured",
               "at least a quarter of max_model_len, " + std::to_string(a.quantization.max_model_len),
               std::to_string(longest));
  for (const char* name : {"key", "value", "latent"}) check_outliers(a, name, report);
}

}  // namespace kvcal
