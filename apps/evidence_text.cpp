#include "evidence_text.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/number_text.h"
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
    text.add(
        "depends on one prompt: " + sites +
        "; without it absmax would be less than half, so another prompt like it may exceed the range: add more of its "
        "kind.");
  if (const std::string sites = dependent_sites(artifact, &ArtifactGrowth::depends_on_tag); !sites.empty())
    text.add("depends on one tag: " + sites + "; a service without such prompts could use smaller scales.");
  return text;
}

Lines coverage_text(const Artifact& artifact) {
  const std::optional<PromptsBeyond>& beyond = artifact.evidence.beyond;
  if (!beyond) return {};
  std::string text = "coverage: each of " + grouped(beyond->n_prompts) + " prompts was left out once; " +
                     grouped(beyond->absmax) + " exceed(s) the absmax of the others at some site";
  if (beyond->headroom && artifact.quantization.headroom)
    text += ", " + grouped(*beyond->headroom) + " by more than headroom " +
            formatted("%.4g", *artifact.quantization.headroom);
  return Lines(text + "; expect the same share of similar new prompts to do so.");
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
