// Recorded damage and verdicts against the scales.
#include <algorithm>
#include <cmath>

#include "check/artifact_checks.h"

namespace kvcal {
namespace {

struct DamageCheck {
  const Artifact& a;
  const ArtifactSite& site;
  std::string path;
  Report& report;

  float largest_ratio() const {  // of a head's magnitude to its scale
    float worst = site.absmax / site.scale;
    if (!site.scale_per_channel.empty()) return worst;  // at most: no channel is larger beside its scale
    if (!site.scale_per_head.empty()) worst = 0;
    for (size_t h = 0; h < site.scale_per_head.size(); ++h)
      worst = std::max(worst, site.absmax_per_head[h] / site.scale_per_head[h]);
    return worst;
  }

  bool is_swapped() const {  // S13 stands at the layer
    const std::string layer = path.substr(0, path.rfind('.'));
    return std::any_of(report.findings.begin(), report.findings.end(),
                       [&](const Finding& f) { return f.path == layer; });
  }

  void damage() const {
    if (report.has_below(path + ".scale") || report.has_below(path + ".absmax") || is_swapped()) return;
    const ArtifactError& e = site.error;
    const double max = a.quantization.max;
    const auto check = [&](const std::string& member, double clipped, double largest) {
      if ((clipped > 0) != (largest > max) && std::fabs(largest / max - 1) > 1e-6)
        report.add("E01", path + "." + member, "the share of clipped values", largest > max ? "more than 0" : "0",
                   number_text(clipped));
    };
    check("error.clipped_at_scale", e.clipped_at_scale, largest_ratio());
    check("error.clipped_at_one", e.clipped_at_one, site.absmax);
    if (e.clipped_at_one > 0 && e.lost_at_one == 0)
      report.add("E01", path + ".error.lost_at_one", "the share of energy lost", "more than 0, as values are clipped",
                 "0");
    if (!site.parts) return;
    check("error_latent.clipped_at_one", site.parts->error_latent.clipped_at_one, site.parts->absmax_latent);
    check("error_rope.clipped_at_one", site.parts->error_rope.clipped_at_one, site.parts->absmax_rope);
    worst_part("lost_at_scale", &ArtifactError::lost_at_scale);
    worst_part("lost_at_one", &ArtifactError::lost_at_one);
  }

  void worst_part(const std::string& member, float ArtifactError::*figure) const {
    const float worst = std::max(site.parts->error_latent.*figure, site.parts->error_rope.*figure);
    if (site.error.*figure != worst)
      report.add("E01", path + ".error." + member, "the figure of the worse part", number_text(worst),
                 number_text(site.error.*figure));
  }

  /// What the recorded figures and limits say again.
  void assessment() const {
    const Assessment& actual = site.assessment;
    if (a.quantization.three_answers) return;
    if (!actual.at_scale.kl && !actual.at_scale.noise && !actual.at_scale.rel) return;  // version 1.0 had no figures
    Assessment again = actual;
    judge(again.at_scale, a.quantization.limits);
    judge(again.at_one, a.quantization.limits);
    const auto compare = [&](const char* member, const DamageAtScale& recorded, const DamageAtScale& derived) {
      if (recorded.fitness != derived.fitness && !on_limit(derived))
        report.add("E02", path + ".assessment." + member + ".fp8", "the answer that follows from figures and limits",
                   "'" + std::string(name_of(derived.fitness)) + "'",
                   "'" + std::string(name_of(recorded.fitness)) + "'");
    };
    compare("at_scale", actual.at_scale, again.at_scale);
    compare("at_one", actual.at_one, again.at_one);
    const ScaleNeed need = scale_need(actual.at_scale, actual.at_one);
    if (need != actual.scale)
      report.add("E02", path + ".assessment.scale", "the answer that follows from the damage at the scale and at 1.0",
                 "'" + std::string(name_of(need)) + "'", "'" + std::string(name_of(actual.scale)) + "'");
  }

  bool on_limit(const DamageAtScale& damage) const {
    const std::optional<double> limit = limit_of(a.quantization.limits, damage.decided_by);
    const std::optional<double> value = deciding_value(damage);
    return limit && value && !above(*value, *limit) && !below(*value, *limit);
  }
};

void check_joint(const ArtifactLayer& l, const std::string& path, Report& report) {
  const auto check = [&](const char* member, bool actual, Verdict joint, Verdict own) {
    const bool expected = joint == Verdict::Inadequate && own != Verdict::Inadequate;
    if (actual != expected)
      report.add("E02", path + ".joint." + member, "whether the joint scale loses the site",
                 expected ? "true" : "false", actual ? "true" : "false");
  };
  check("loses_key", l.joint.loses_key, l.joint.key, l.key.verdict());
  check("loses_value", l.joint.loses_value, l.joint.value, l.value.verdict());
}

}  // namespace

void check_damage(const Artifact& a, Report& report) {
  report.evaluated({"E01", "E02"});
  for (const auto& [l, path] : listed_layers(a)) {
    for (const NamedSite& named : sites_of(l)) {
      const DamageCheck s{a, *named.site, path + "." + named.name, report};
      s.damage();
      s.assessment();
    }
    if (!l.is_mla() && !report.has_below(path)) check_joint(l, path, report);
  }
}

}  // namespace kvcal
