#include "result_text.h"

#include <algorithm>
#include <map>

#include "artifact/delivery.h"
#include "artifact/json_text.h"
#include "base/counted.h"
#include "base/number_text.h"
#include "evidence_text.h"
#include "table.h"

namespace kvcal {
namespace {

// What packing the same prompts otherwise added, in the last pass that did.
std::string added_by_packing(const ArtifactGrowth& growth) {
  return growth.per_pass.empty() || !growth.per_pass.back()
             ? "-"
             : share_in_percent(static_cast<double>(*growth.per_pass.back()));
}

// The figure that decided, with its name: "kl 0.0021", "rel 2.7 %".
std::string deciding_figure(const DamageAtScale& d) {
  const std::string name(name_of(d.decided_by));
  const double value = deciding_value(d).value_or(0);
  switch (d.decided_by) {
    case Figure::Kl:
    case Figure::KlUnseen:
    case Figure::Noise:
      return name + formatted(" %.2g", value);
    case Figure::Rel:
      return name + formatted(" %.1f %%", 100 * value);
    case Figure::FlushedTokens:
      return "tokens" + formatted(" %.1f %%", 100 * value);
    case Figure::Clipped:
      break;
  }
  return name;
}

// Of the cache's own sites: queries have a scale, but none keeps a layer out of FP8.
template <class Predicate>
std::string layers_where(const Artifact& artifact, Predicate holds) {
  std::string list;
  for (const ArtifactLayer& l : artifact.layers)
    if (std::ranges::any_of(cached_sites(l), [&](const NamedSite& s) { return holds(s.site->assessment); }))
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

Lines not_converged_text(const Artifact& artifact) {
  const std::string sites = unsettled_sites(artifact);
  if (sites.empty()) return {};
  if (!cached_sites(artifact.layers.front())[0].site->growth.last_quarter)
    return Lines("not converged: a single prompt cannot show convergence; use more, and varied, prompts.");
  return Lines(
      "not converged: the last quarter of the prompts, or packing them differently, still raised the absmax of " +
      sites + "; use more, or more varied, prompts.");
}

// Which sites these scales ruin, and by what.
Lines keep16_text(const Artifact& artifact, const std::string& layers) {
  SiteList list;
  bool fine_at_one = true;
  for (const ArtifactLayer& l : artifact.layers)
    for (const NamedSite& named : cached_sites(l)) {
      const Assessment& a = named.site->assessment;
      if (a.fp8 != Fitness::Keep16) continue;
      list.add(l, named, " (" + deciding_figure(a.at_scale) + ")");
      fine_at_one = fine_at_one && a.at_one.fitness == Fitness::Fine;
    }
  std::string way = keeps_whole_cache(artifact)
                        ? "leave the whole cache in the model's dtype"
                        : "keep layer(s) " + layers + " in the model's dtype (--kv-cache-dtype-skip-layers)";
  if (fine_at_one)
    way = "scale 1.0 does not: leave these scales out, try --policy percentile, or " + way;
  else if (!artifact.quantization.headroom)  // such policies clip what absmax keeps
    way = "try --policy absmax, which clips nothing; if that does not help, " + way;
  return Lines("keep16: rounding at these scales ruins the attention of " + list.text() + "; " + way + ".");
}

std::string fine_text(const Artifact& artifact) {
  const std::string fine = "fine: at these scales rounding ruins the attention of no layer";
  const std::vector<int64_t> changed = most_changed_layers(artifact);
  if (changed.empty()) return fine + ".";
  return fine + "; it changes that of layer(s) " + ranges_text(changed) +
         " most, and 'kvcal evaluate --per-layer' measures what that does to predictions.";
}

// What the server has to load.
Lines scales_text(const Artifact& artifact, const std::string& needed) {
  const std::string delivery = delivery_text(artifact);
  Lines text;
  if (!delivery.empty()) text.add(delivery);
  if (!needed.empty())
    return text + Lines("needed: scale 1.0 would change the attention of layer(s) " + needed +
                        "; the server must load these scales.");
  if (serves_as_it_is(artifact)) return text;
  text.add("any scale: at 1.0 no layer is clearly worse.");
  if (!artifact.quantization.seeks_one() && artifact.quantization.dtype.starts_with("fp8"))
    text.add("policy " + artifact.quantization.policy +
             ": other scales than powers of two round every value otherwise than 1.0 does, for better or worse; "
             "--policy pow2 leaves 1.0 wherever that is as good.");
  return text;
}

// "layer 3 key head 1": heads that were pruned, or padded. They need no scale, but nobody expects them.
Lines zero_heads_text(const Artifact& artifact) {
  SiteList list;
  for (const ArtifactLayer& l : artifact.layers)
    for (const NamedSite& s : sites_of(l))
      for (const int head : s.site->zero_heads) list.add(l, s, " head " + std::to_string(head));
  if (list.text().empty()) return {};
  return Lines("note: heads whose values are all zero: " + list.text() + ".");
}

// The parts of an MLA row, below it: they share its scale.
void add_parts(Table& table, const ArtifactParts& parts) {
  const auto add = [&](const char* name, float absmax, const ArtifactError& e) {
    table.add_row({"", name, formatted("%.4g", static_cast<double>(absmax)), "",
                   share_in_percent(static_cast<double>(e.at_scale)), share_in_percent(static_cast<double>(e.at_one)),
                   "", "", "", "", "", ""});
  };
  add("- latent part", parts.absmax_latent, parts.error_latent);
  add("- rope part", parts.absmax_rope, parts.error_rope);
}

bool is_any_fine(const ArtifactSite& site) {
  return site.assessment.scale == ScaleNeed::Any && site.assessment.fp8 == Fitness::Fine;
}

const char* measured_or_not(Basis basis) { return basis == Basis::Attention ? "measured" : "predicted"; }

Table empty_table() {
  using enum Table::Align;
  return Table({{"layer", Right},
                {"site"},
                {"absmax", Right, 1},
                {"scale", Right},
                {"error", Right, 3},
                {"error at 1.0", Right, 3},
                {"harm at scale", Right},
                {"harm at 1.0", Right},
                {"by packing", Right, 4},
                {"harm is", Table::Align::Left, 2},
                {"scale?"},
                {"fp8"}},
               2);
}

}  // namespace

Lines result_heading(const Artifact& artifact) {
  const CalibrationInfo& c = artifact.calibration;
  const ArtifactQuantization& q = artifact.quantization;
  return Lines(artifact.model.architecture + ": " + counted(c.n_prompts, "prompt") + ", " +
               counted(c.n_tokens, "token") + " in " + counted(c.passes, "pass", "passes") + "; " + q.dtype + ", " +
               q.policy) +
         Lines("");
}

Lines result_table(const Artifact& artifact, bool all) {
  Table table = empty_table();
  int n_left_out = 0, n_rows = 0;
  for (const ListedLayer& l : listed_layers(artifact))
    for (const NamedSite& named : sites_of(l.layer)) {
      const ArtifactSite& s = *named.site;
      const Assessment& a = s.assessment;
      if (!all && is_any_fine(s)) {
        ++n_left_out;
        continue;
      }
      ++n_rows;
      table.add_row({row_name(artifact, l.layer), named.name, formatted("%.4g", static_cast<double>(s.absmax)),
                     formatted("%.5g", static_cast<double>(s.scale)),
                     share_in_percent(static_cast<double>(s.error.at_scale)),
                     share_in_percent(static_cast<double>(s.error.at_one)), deciding_figure(a.at_scale),
                     deciding_figure(a.at_one), added_by_packing(s.growth), measured_or_not(a.at_scale.by),
                     std::string(name_of(a.scale)), std::string(name_of(a.fp8))});
      if (s.parts) add_parts(table, *s.parts);
    }
  if (n_rows == 0) return {};
  Lines text = table.text();
  if (n_left_out > 0) text.add("(" + std::to_string(n_left_out) + " more that are fine, at 1.0 too; -v shows them)");
  text.add("");
  return text;
}

Lines result_advice(const Artifact& artifact) {
  const std::string keep16 = layers_where(artifact, [](const Assessment& a) { return a.fp8 == Fitness::Keep16; });
  const std::string needed = layers_where(artifact, [](const Assessment& a) { return a.scale == ScaleNeed::Needed; });
  Lines text;
  if (!keep16.empty()) text += keep16_text(artifact, keep16);
  text += scales_text(artifact, needed);
  if (keep16.empty()) text.add(fine_text(artifact));
  if (!artifact.mtp_layers.empty())
    text.add(
        "mtp: the model verifies what a server drafts with that layer; its cache decides how many drafts are right.");
  text += zero_heads_text(artifact) + not_converged_text(artifact) + evidence_text(artifact);
  if (artifact.kv_cache.empty() && !artifact.kv_cache_left_out.empty())
    text.add("kv_cache (for servers that read one scale per layer) is omitted: " + artifact.kv_cache_left_out);
  return text;
}

Json result_json(const Artifact& artifact) {
  Json layers = Json::array();
  for (const ArtifactLayer& l : artifact.layers) {
    Json layer = {{"index", l.index}, {"name", l.name}};
    for (const NamedSite& named : sites_of(l)) {
      const ArtifactSite& s = *named.site;
      layer[named.name] = {{"scale", json_number(s.scale)},
                           {"absmax", json_number(s.absmax)},
                           {"assessment", {{"scale", name_of(s.assessment.scale)}, {"fp8", name_of(s.assessment.fp8)}}},
                           {"verdict", name_of(s.verdict())}};
    }
    layers.push_back(std::move(layer));
  }
  Json verdicts = Json::object();
  for (const ArtifactLayer& l : artifact.layers)
    for (const NamedSite& s : cached_sites(l)) {
      Json& n = verdicts[std::string(name_of(s.site->verdict()))];
      n = n.is_null() ? 1 : n.get<int>() + 1;
    }
  return {{"layers", layers}, {"verdicts", verdicts}, {"converged", converged(artifact)}};
}

}  // namespace kvcal
