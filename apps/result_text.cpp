#include "result_text.h"

#include <array>
#include <cstdio>
#include <map>

#include "table.h"

namespace kvcal {
namespace {

struct NamedSite {
  const char* name;
  const ArtifactSite ArtifactLayer::*site;
};
constexpr std::array<NamedSite, 3> kSites = {
    {{"key", &ArtifactLayer::key}, {"value", &ArtifactLayer::value}, {"query", &ArtifactLayer::query}}};

std::string formatted(const char* format, double value) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string percent(double share) {
  return share != 0 && share < 0.0005 ? formatted("%.1e %%", 100 * share) : formatted("%.2f %%", 100 * share);
}

std::string added_by_last_pass(const ArtifactGrowth& growth) {
  return growth.per_pass.empty() || !growth.per_pass.back() ? "-"
                                                            : percent(static_cast<double>(*growth.per_pass.back()));
}

// The cache's own sites; queries have a scale but no verdict that keeps a layer out of FP8.
std::map<Verdict, int> count_verdicts(const Artifact& artifact) {
  std::map<Verdict, int> count;
  for (const ArtifactLayer& l : artifact.layers)
    for (const ArtifactSite* s : {&l.key, &l.value}) ++count[s->verdict];
  return count;
}

std::string layers_with(const Artifact& artifact, Verdict verdict) {
  std::string list;
  for (const ArtifactLayer& l : artifact.layers)
    if (l.key.verdict == verdict || l.value.verdict == verdict)
      list += (list.empty() ? "" : ", ") + std::to_string(l.index);
  return list;
}

// "layer 3 query, layer 7 key": sites whose absmax had not settled.
std::string unsettled_sites(const Artifact& artifact) {
  std::string list;
  for (const ArtifactLayer& l : artifact.layers)
    for (const NamedSite& s : kSites)
      if (!(l.*s.site).growth.converged)
        list += (list.empty() ? "layer " : ", layer ") + std::to_string(l.index) + " " + s.name;
  return list;
}

}  // namespace

std::string result_table(const Artifact& artifact) {
  using enum Table::Align;
  Table table({{"layer", Right},
               {"site"},
               {"absmax", Right},
               {"scale", Right},
               {"error", Right},
               {"error at 1.0", Right},
               {"clipped at 1.0", Right},
               {"lost at 1.0", Right},
               {"last pass", Right},
               {"verdict"}});
  for (const ArtifactLayer& l : artifact.layers)
    for (const NamedSite& named : kSites) {
      const ArtifactSite& s = l.*named.site;
      table.add_row({std::to_string(l.index), named.name, formatted("%.4g", static_cast<double>(s.absmax)),
                     formatted("%.5g", static_cast<double>(s.scale)), percent(static_cast<double>(s.error.at_scale)),
                     percent(static_cast<double>(s.error.at_one)), percent(static_cast<double>(s.error.clipped_at_one)),
                     percent(static_cast<double>(s.error.lost_at_one)), added_by_last_pass(s.growth),
                     std::string(name_of(s.verdict))});
    }
  return table.text();
}

std::string result_advice(const Artifact& artifact) {
  const std::map<Verdict, int> count = count_verdicts(artifact);
  const auto has = [&](Verdict v) { return count.contains(v); };
  std::string text;
  if (has(Verdict::Inadequate))
    text += "inadequate: no scale of this granularity keeps layer(s) " + layers_with(artifact, Verdict::Inadequate) +
            "; keep them in the model's dtype (--kv-cache-dtype-skip-layers).\n";
  if (has(Verdict::Needed))
    text += "needed: at scale 1.0 layer(s) " + layers_with(artifact, Verdict::Needed) +
            " would be clipped or flushed; a server must load these scales.\n";
  if (has(Verdict::AtRisk))
    text += "at_risk: FP8's ordinary rounding is large for the sharp attention of layer(s) " +
            layers_with(artifact, Verdict::AtRisk) + "; check the model's answers.\n";
  if (!has(Verdict::Inadequate) && !has(Verdict::Needed))
    text += "neutral: scale 1.0 would do as well for every layer; these scales do no harm.\n";
  if (const std::string sites = unsettled_sites(artifact); !sites.empty())
    text += "not converged: the last quarter of the prompts or the last pass still raised the absmax of " + sites +
            "; more, or more varied, prompts settle it.\n";
  if (artifact.kv_cache.empty() && !artifact.kv_cache_left_out.empty())
    text += "kv_cache (for servers that read one scale per layer) is left out: " + artifact.kv_cache_left_out + "\n";
  return text;
}

Json result_json(const Artifact& artifact) {
  Json layers = Json::array();
  for (const ArtifactLayer& l : artifact.layers) {
    Json layer = {{"index", l.index}, {"name", l.name}};
    for (const NamedSite& named : kSites) {
      const ArtifactSite& s = l.*named.site;
      layer[named.name] = {{"scale", s.scale}, {"absmax", s.absmax}, {"verdict", name_of(s.verdict)}};
    }
    layers.push_back(std::move(layer));
  }
  Json verdicts = Json::object();
  for (const auto& [verdict, n] : count_verdicts(artifact)) verdicts[std::string(name_of(verdict))] = n;
  return {{"layers", layers}, {"verdicts", verdicts}, {"converged", unsettled_sites(artifact).empty()}};
}

}  // namespace kvcal
