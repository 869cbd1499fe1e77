#include "result_text.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "artifact/json_text.h"
#include "evidence_text.h"
#include "table.h"

namespace kvcal {
namespace {

std::string formatted(const char* format, double value) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string percent(double share) {
  return share != 0 && share < 0.0005 ? formatted("%.1e %%", 100 * share) : formatted("%.2f %%", 100 * share);
}

// What packing the same prompts otherwise added, in the last pass that did.
std::string added_by_packing(const ArtifactGrowth& growth) {
  return growth.per_pass.empty() || !growth.per_pass.back() ? "-"
                                                            : percent(static_cast<double>(*growth.per_pass.back()));
}

// The cache's own sites; queries have a scale but no verdict that keeps a layer out of FP8.
std::map<Verdict, int> count_verdicts(const Artifact& artifact) {
  std::map<Verdict, int> count;
  for (const ArtifactLayer& l : artifact.layers)
    for (const NamedSite& s : cached_sites(l)) ++count[s.site->verdict];
  return count;
}

std::string layers_with(const Artifact& artifact, Verdict verdict) {
  std::string list;
  for (const ArtifactLayer& l : artifact.layers)
    if (std::ranges::any_of(cached_sites(l), [&](const NamedSite& s) { return s.site->verdict == verdict; }))
      list += (list.empty() ? "" : ", ") + std::to_string(l.index);
  return list;
}

// "layer 3 key, layer 7 value, ...": the first few; the file has them all.
class SiteList {
 public:
  void add(const ArtifactLayer& layer, const NamedSite& site, const std::string& remark = "") {
    constexpr int kShown = 6;
    if (++n_ > kShown + 1) return;
    text_ += n_ > 1 ? ", " : "";
    text_ += n_ > kShown ? "..." : "layer " + std::to_string(layer.index) + " " + site.name + remark;
  }
  const std::string& text() const { return text_; }

 private:
  int n_ = 0;
  std::string text_;
};

// Sites whose absmax had not settled, but for those that evidence_text() names.
std::string unsettled_sites(const Artifact& artifact) {
  SiteList list;
  for (const ArtifactLayer& l : artifact.layers)
    for (const NamedSite& s : sites_of(l))
      if (!s.site->growth.converged && !s.site->growth.depends_on) list.add(l, s);
  return list.text();
}

std::string not_converged_text(const Artifact& artifact) {
  const std::string sites = unsettled_sites(artifact);
  if (sites.empty()) return "";
  if (!cached_sites(artifact.layers.front())[0].site->growth.last_quarter)
    return "not converged: one prompt has nothing to be compared with; feed more, and varied ones.\n";
  return "not converged: the last quarter of the prompts, or packing them otherwise, still raised the absmax of " +
         sites + "; more, or more varied, prompts settle it.\n";
}

// Which sites these scales lose, and by what.
std::string inadequate_text(const Artifact& artifact) {
  SiteList list;
  for (const ArtifactLayer& l : artifact.layers)
    for (const NamedSite& named : cached_sites(l)) {
      const ArtifactSite& s = *named.site;
      if (s.verdict != Verdict::Inadequate) continue;
      std::string why = " (clipped " + percent(static_cast<double>(s.error.clipped_at_scale)) + ", lost " +
                        percent(static_cast<double>(s.error.lost_at_scale));
      if (s.error.noise_at_scale) why += formatted(", noise %.2f nats", static_cast<double>(*s.error.noise_at_scale));
      list.add(l, named, why + ")");
    }
  // Policies without headroom clip what absmax keeps.
  const bool clips = !artifact.quantization.headroom;
  return "inadequate: these scales do not keep " + list.text() + "; " +
         (clips ? "try --policy absmax, which clips nothing; where it does not help either, keep layer(s) "
                : "keep layer(s) ") +
         layers_with(artifact, Verdict::Inadequate) + " in the model's dtype (--kv-cache-dtype-skip-layers).\n";
}

// The parts of an MLA row, below it: they share its scale.
void add_parts(Table& table, const ArtifactParts& parts) {
  const auto add = [&](const char* name, float absmax, const ArtifactError& e) {
    table.add_row({"", name, formatted("%.4g", static_cast<double>(absmax)), "",
                   percent(static_cast<double>(e.at_scale)), percent(static_cast<double>(e.at_one)),
                   percent(static_cast<double>(e.clipped_at_one)), percent(static_cast<double>(e.lost_at_one)), "",
                   ""});
  };
  add("- latent part", parts.absmax_latent, parts.error_latent);
  add("- rope part", parts.absmax_rope, parts.error_rope);
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
               {"packing adds", Right},
               {"verdict"}});
  for (const ArtifactLayer& l : artifact.layers)
    for (const NamedSite& named : sites_of(l)) {
      const ArtifactSite& s = *named.site;
      table.add_row({std::to_string(l.index), named.name, formatted("%.4g", static_cast<double>(s.absmax)),
                     formatted("%.5g", static_cast<double>(s.scale)), percent(static_cast<double>(s.error.at_scale)),
                     percent(static_cast<double>(s.error.at_one)), percent(static_cast<double>(s.error.clipped_at_one)),
                     percent(static_cast<double>(s.error.lost_at_one)), added_by_packing(s.growth),
                     std::string(name_of(s.verdict))});
      if (s.parts) add_parts(table, *s.parts);
    }
  return table.text();
}

std::string result_advice(const Artifact& artifact) {
  const std::map<Verdict, int> count = count_verdicts(artifact);
  const auto has = [&](Verdict v) { return count.contains(v); };
  std::string text;
  if (has(Verdict::Inadequate)) text += inadequate_text(artifact);
  if (has(Verdict::Needed))
    text += "needed: at scale 1.0 layer(s) " + layers_with(artifact, Verdict::Needed) +
            " would be clipped or flushed; a server must load these scales.\n";
  if (has(Verdict::AtRisk))
    text += "at_risk: the format's ordinary rounding is large for the sharp attention of layer(s) " +
            layers_with(artifact, Verdict::AtRisk) + "; check the model's answers.\n";
  if (!has(Verdict::Inadequate) && !has(Verdict::Needed))
    text += "neutral: scale 1.0 would do as well for every layer; these scales do no harm.\n";
  text += not_converged_text(artifact) + evidence_text(artifact);
  if (artifact.kv_cache.empty() && !artifact.kv_cache_left_out.empty())
    text += "kv_cache (for servers that read one scale per layer) is left out: " + artifact.kv_cache_left_out + "\n";
  return text;
}

Json result_json(const Artifact& artifact) {
  Json layers = Json::array();
  for (const ArtifactLayer& l : artifact.layers) {
    Json layer = {{"index", l.index}, {"name", l.name}};
    for (const NamedSite& named : sites_of(l)) {
      const ArtifactSite& s = *named.site;
      layer[named.name] = {
          {"scale", json_number(s.scale)}, {"absmax", json_number(s.absmax)}, {"verdict", name_of(s.verdict)}};
    }
    layers.push_back(std::move(layer));
  }
  Json verdicts = Json::object();
  for (const auto& [verdict, n] : count_verdicts(artifact)) verdicts[std::string(name_of(verdict))] = n;
  return {{"layers", layers}, {"verdicts", verdicts}, {"converged", converged(artifact)}};
}

}  // namespace kvcal
