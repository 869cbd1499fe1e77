#include "evidence_text.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/number_text.h"
#include "evaluate/interval.h"
#include "progress.h"
#include "table.h"

namespace kvcal {
namespace {

constexpr size_t kShownItems = 6;  // sites of a line; the file has them all

std::string list_of(const std::vector<std::string>& items) {
  std::string text;
  for (size_t i = 0; i < std::min(items.size(), kShownItems); ++i) text += (i ? ", " : "") + items[i];
  return text + (items.size() > kShownItems ? ", ..." : "");
}

using Member = std::optional<ArtifactDependence> ArtifactGrowth::*;

/// "layer 3 value ('x', 8 times all others), ..."
std::string dependent_sites(const Artifact& artifact, Member member) {
  std::vector<std::string> sites;
  for (const ArtifactLayer& layer : artifact.layers)
    for (const NamedSite& s : sites_of(layer))
      if (const auto& d = s.site->growth.*member)
        sites.push_back("layer " + std::to_string(layer.index) + " " + s.name + " (" + quoted(d->on) + ", " +
                        (d->ratio ? formatted("%.3g times all others", static_cast<double>(*d->ratio))
                                  : std::string("all others are zero")) +
                        ")");
  return list_of(sites);
}

Lines dependence_text(const Artifact& artifact) {
  Lines text;
  if (const std::string sites = dependent_sites(artifact, &ArtifactGrowth::depends_on); !sites.empty())
    text.add("one prompt decides: the largest values of " + sites + " are its own, more than twice those of all " +
             "others; another one like it may exceed them: add prompts of its kind.");
  if (const std::string sites = dependent_sites(artifact, &ArtifactGrowth::depends_on_tag); !sites.empty())
    text.add("one tag decides: the largest values of " + sites +
             " come from its prompts; a service without such prompts could use smaller scales.");
  return text;
}

/// Where a share lies of which k of n were seen, in percent. Prompts left out in turn are not quite independent, so
/// that it is a rough interval. Its end holds for clipping too, which is rarer than to be beyond the headroom.
Interval percentages(int64_t k, int64_t n) {
  const auto size = static_cast<double>(n);
  const Interval shares = wilson(static_cast<double>(k) / size, size);
  return {k == 0 ? 0 : 100 * shares.low, 100 * shares.high};
}

std::string percent_figure(double percent) { return percent > 99 ? "100" : formatted("%.2g", percent); }

Lines coverage_text(const Artifact& artifact) {
  const std::optional<PromptsBeyond>& beyond = artifact.evidence.beyond;
  if (!beyond) return {};
  const Interval range = percentages(beyond->absmax, beyond->n_prompts);
  std::string text = "new prompts: roughly " + percent_figure(range.low) + " to " + percent_figure(range.high) +
                     " % of prompts like these will exceed the largest value measured at some site";
  std::string seen = grouped(beyond->absmax);
  if (beyond->headroom && artifact.quantization.headroom) {
    text += ", at most " + percent_figure(percentages(*beyond->headroom, beyond->n_prompts).high) +
            " % by more than the headroom of " + formatted("%.4g", *artifact.quantization.headroom) +
            ", beyond which values may be clipped";
    seen += " and " + grouped(*beyond->headroom);
  }
  return Lines(text + " (of " + grouped(beyond->n_prompts) + " prompts, each left out in turn, " + seen + " did).");
}

Lines rotation_text(const Artifact& artifact) {
  const ArtifactQuantization& q = artifact.quantization;
  const int64_t longest = artifact.calibration.longest;
  if (q.headroom || (q.max_model_len > 0 && longest > 0 && q.max_model_len <= longest)) return {};
  double most = 1;
  std::string where;
  for (const ArtifactLayer& layer : artifact.layers)
    for (const NamedSite& s : sites_of(layer))
      if (const double ratio = static_cast<double>(s.site->envelope.value_or(0)) / static_cast<double>(s.site->absmax);
          ratio > most) {
        most = ratio;
        where = "layer " + std::to_string(layer.index) + " " + s.name;
      }
  if (where.empty()) return {};
  return Lines("--policy " + q.policy + " covers the keys measured, up to position " + grouped(longest - 1) +
               "; the server allows longer contexts, where rotation alone can raise " + where + " to " +
               formatted("%.3g", most) + " times its absmax: --policy absmax covers that.");
}

}  // namespace

Lines evidence_text(const Artifact& artifact) {
  return rotation_text(artifact) + dependence_text(artifact) + coverage_text(artifact);
}

}  // namespace kvcal
