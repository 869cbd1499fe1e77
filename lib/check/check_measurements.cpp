// Measurements and counts must tell one story.
#include <algorithm>
#include <bit>
#include <cmath>

#include "base/position_bucket.h"
#include "check/artifact_checks.h"

namespace kvcal {
namespace {

/// The bf16 number toward zero.
float next_below(float value) { return std::bit_cast<float>(std::bit_cast<uint32_t>(value) & 0xFFFF0000U); }

struct MeasurementCheck {
  const Artifact& a;
  const ArtifactLayer& layer;
  const ArtifactSite& site;
  std::string path;
  Report& report;

  void maxima() const {
    const float largest = *std::max_element(site.absmax_per_head.begin(), site.absmax_per_head.end());
    if (largest != site.absmax)
      report.add("R02", path + ".absmax", "the largest magnitude", number_text(largest) + ", the largest of the heads",
                 number_text(site.absmax));
    if (site.parts)
      if (const float larger = std::max(site.parts->absmax_latent, site.parts->absmax_rope); larger != site.absmax)
        report.add("R02", path + ".absmax", "the largest magnitude", number_text(larger) + ", the larger of both parts",
                   number_text(site.absmax));
    if (report.has_below(path + ".absmax")) return;
    const auto top = std::max_element(site.absmax_by_position.begin(), site.absmax_by_position.end());
    if (top == site.absmax_by_position.end() || *top != site.absmax)
      report.add("R04", path + ".absmax_by_position", "the largest magnitude by position", number_text(site.absmax),
                 top == site.absmax_by_position.end() ? "none" : number_text(*top));
    if (site.envelope && *site.envelope < site.absmax)
      report.add("R09", path + ".envelope", "the envelope", "at least " + number_text(site.absmax),
                 number_text(*site.envelope));
  }

  void place() const {
    if (report.has_below(path + ".absmax")) return;
    const ArtifactWhere& w = site.where;
    const auto out = [&](const char* member, int64_t actual, int64_t limit) {
      if (actual < limit) return false;
      report.add("R03", path + ".where." + member, std::string("the ") + member + " of the largest magnitude",
                 "less than " + std::to_string(limit), std::to_string(actual));
      return true;
    };
    const int64_t width = path.ends_with(".value") ? layer.head_dim_v : layer.head_dim_k;
    if (out("head", w.head, static_cast<int64_t>(site.absmax_per_head.size())) || out("channel", w.channel, width) ||
        out("pass", w.pass, a.calibration.passes + 1) || out("position", w.position, a.calibration.longest))
      return;
    if (site.absmax_per_head[static_cast<size_t>(w.head)] != site.absmax)
      report.add("R03", path + ".where.head", "the head of the largest magnitude",
                 "one that has " + number_text(site.absmax), std::to_string(w.head));
    if (site.parts)
      if (const float part = w.channel < layer.head_dim_v ? site.parts->absmax_latent : site.parts->absmax_rope;
          part != site.absmax)
        report.add("R03", path + ".where.channel", "the channel of the largest magnitude",
                   "one of the part that has " + number_text(site.absmax), std::to_string(w.channel));
    const size_t bucket = static_cast<size_t>(position_bucket(w.position));
    if (bucket >= site.absmax_by_position.size() || site.absmax_by_position[bucket] < site.absmax)
      report.add("R03", path + ".where.position", "the position of the largest magnitude",
                 "one whose range has " + number_text(site.absmax), std::to_string(w.position));
  }

  /// Magnitudes are counted as bf16; a number between two of those was put there by hand. The envelope is computed.
  void measured() const {
    if (report.has_below(path + ".")) return;
    const auto check = [&](const std::string& member, float value) {
      if ((std::bit_cast<uint32_t>(value) & 0xFFFF) != 0)
        report.add("N03", path + "." + member, "the measured magnitude",
                   "a bf16 number; the next below is " + number_text(next_below(value)), number_text(value));
    };
    const auto each = [&](const char* member, const std::vector<float>& values) {
      for (size_t i = 0; i < values.size(); ++i) check(member + ("[" + std::to_string(i) + "]"), values[i]);
    };
    check("absmax", site.absmax);
    each("absmax_per_head", site.absmax_per_head);
    each("absmax_by_position", site.absmax_by_position);
    if (!site.parts) return;
    check("absmax_latent", site.parts->absmax_latent);
    check("absmax_rope", site.parts->absmax_rope);
  }

  void growth() const {
    const ArtifactGrowth& g = site.growth;
    const double limit = a.quantization.limits.growth;
    const int64_t passes = a.calibration.passes;
    if (static_cast<int64_t>(g.per_pass.size()) != passes - 1)
      report.add("E03", path + ".growth.per_pass", "the number of later passes", std::to_string(passes - 1),
                 std::to_string(g.per_pass.size()));
    const auto moves = [&](const std::optional<float>& x) { return !x || above(*x, limit); };
    const auto rests = [&](const std::optional<float>& x) { return x && below(*x, limit); };
    const bool moving = moves(g.last_quarter) || (!g.per_pass.empty() && moves(g.per_pass.back())) || g.depends_on;
    const bool resting = rests(g.last_quarter) && (g.per_pass.empty() || rests(g.per_pass.back())) && !g.depends_on;
    if (g.converged ? moving : resting)
      report.add("E03", path + ".growth.converged", "whether the magnitudes have converged", resting ? "true" : "false",
                 g.converged ? "true" : "false");
  }

  void dependence() const {
    const double limit = a.quantization.limits.dependence;
    for (const auto& [member, found] :
         {std::pair("depends_on", &site.growth.depends_on), std::pair("depends_on_tag", &site.growth.depends_on_tag)})
      if (*found && (*found)->ratio && below(static_cast<double>(*(*found)->ratio), limit))
        report.add("E03", path + ".growth." + member + ".ratio", "the factor by which absmax falls without it",
                   "above " + number_text(limit), number_text(*(*found)->ratio));
  }

  /// All but how often it was observed.
  void magnitudes() const {
    maxima();
    place();
    measured();
    growth();
    dependence();
  }

  void observations(uint64_t expected) const {
    if (site.observations != expected)
      report.add("R11", path + ".observations", "the number of tokens observed",
                 std::to_string(expected) + ", as calibration.n_tokens says", std::to_string(site.observations));
  }

  /// An MTP layer does not see the last token of a sequence; a pass has at most one sequence a prompt.
  void observations_but_last(uint64_t all) const {
    const auto most_ends = static_cast<uint64_t>(a.calibration.n_prompts * a.calibration.passes);
    if (site.observations >= all || site.observations + most_ends < all)
      report.add("R11", path + ".observations", "the number of tokens observed",
                 "less than " + std::to_string(all) + " by one for each sequence", std::to_string(site.observations));
  }
};

/// A state is counted at some places of each sequence. It has no scale, and what its largest magnitude says must fit as
/// a site's does.
void check_state(const Artifact& a, const ArtifactState& s, const std::string& path, Report& report) {
  ArtifactSite site;
  site.absmax = s.absmax;
  site.absmax_per_head = s.absmax_per_head;
  site.absmax_by_position = s.absmax_by_position;
  site.where = s.where;
  site.growth = s.growth;
  ArtifactLayer layer;
  layer.head_dim_k = s.keys * s.values;
  const MeasurementCheck c{a, layer, site, path, report};
  c.magnitudes();
  if (const auto n_tokens = static_cast<uint64_t>(a.calibration.n_tokens); s.observations > n_tokens)
    report.add("R11", path + ".observations", "the number of states counted",
               "at most one for each of " + std::to_string(n_tokens) + " tokens", std::to_string(s.observations));
}

void check_calibration(const Artifact& a, Report& report) {
  const CalibrationInfo& c = a.calibration;
  const auto at_most = [&](const char* member, int64_t actual, int64_t limit, const char* whose) {
    if (actual > limit)
      report.add("R13", std::string("calibration.") + member, std::string("calibration.") + member,
                 "at most " + std::to_string(limit) + ", " + whose, std::to_string(actual));
  };
  at_most("n_prompts", c.n_prompts, c.n_tokens, "the number of tokens");
  // A recording (docs/live.md) has some steps' tokens of a sequence.
  if (c.isa != "recorded") at_most("longest", c.longest, c.n_tokens, "the number of tokens");
  at_most("longest", c.longest, c.max_length, "the limit of a sequence");
  const std::string& inner = a.model.model_type;
  if (a.model_type != inner)
    report.add("R13", "model_type", "the model type", quoted(inner) + ", as in 'model'", quoted(a.model_type));
  const bool settled = converged(a);
  if (a.evidence.converged != settled)
    report.add("E03", "calibration.converged", "whether all sites have converged", settled ? "true" : "false",
               settled ? "false" : "true");
}

/// Layers whose queries meet the layer's cache: itself and those that share it.
uint64_t n_readers(const Artifact& a, const ArtifactLayer& layer) {
  return 1 + static_cast<uint64_t>(std::ranges::count_if(a.layers_without_kv, [&](const LayerInfo& other) {
           return other.shares_kv_with.value_or(-1) == layer.index;
         }));
}

}  // namespace

void check_measurements(const Artifact& a, Report& report) {
  report.evaluated({"E03", "N03", "R02", "R03", "R04", "R09", "R11", "R13"});
  const auto n_tokens = static_cast<uint64_t>(a.calibration.n_tokens);
  for (const auto& [l, path] : listed_layers(a)) {
    for (const NamedSite& named : sites_of(l)) {
      const MeasurementCheck s{a, l, *named.site, path + "." + named.name, report};
      s.magnitudes();
      if (a.model.is_mtp(l.index))
        s.observations_but_last(n_tokens);
      else
        s.observations(&s.site == &l.query ? n_tokens * n_readers(a, l) : n_tokens);
    }
  }
  for (size_t i = 0; i < a.state_layers.size(); ++i)
    check_state(a, a.state_layers[i], "state_layers[" + std::to_string(i) + "]", report);
  check_calibration(a, report);
}

}  // namespace kvcal
