#include "stats_groups.h"

#include "artifact/json_text.h"
#include "artifact/ranges_by.h"
#include "base/error.h"
#include "base/number_text.h"
#include "progress.h"
#include "solve/dependence.h"
#include "solve/options.h"
#include "solve/range_coverage.h"
#include "stats/group_ranges.h"
#include "stats/queries.h"
#include "table.h"

namespace kvcal {
namespace {

/// Of the default policy and format.
double headroom() { return headroom_of(SolveOptions{}); }

Json number_or_null(const std::optional<double>& x) { return x ? json_number(static_cast<float>(*x)) : Json(nullptr); }

Json ranges_json(const std::vector<GroupRange>& ranges, const char* counted) {
  Json json = Json::array();
  for (const GroupRange& r : ranges)
    json.push_back(
        {{"name", r.name}, {counted, r.n}, {"absmax", json_number(r.absmax)}, {"growth", number_or_null(r.growth)}});
  return json;
}

/// "'x' (8 times the others)"
template <class Dependence>
std::string dependence_text(const std::optional<Dependence>& d, const std::string& name) {
  if (!d) return "-";
  return quoted(name) + (d->ratio ? formatted(" (%.3g times the others)", *d->ratio) : " (the others are zero)");
}

void add_site(Table& table, int layer, const std::string& name, const SiteStatistics& site, const RunRecord& run) {
  const std::vector<float> maxima = prompt_maxima(site, run.n_passes);
  const double limit = AssessmentLimits().dependence;
  const auto prompt = depends_on_prompt(maxima, limit);
  const auto tag = depends_on_tag(maxima, run.tags, limit);
  const auto coverage = range_coverage(maxima, headroom());
  table.add_row({std::to_string(layer), name, coverage ? formatted("%.2g %%", 100 * coverage->beyond_absmax) : "-",
                 coverage ? formatted("%.2g %%", 100 * *coverage->beyond_headroom) : "-",
                 dependence_text(prompt, prompt ? run.prompt_ids.at(prompt->prompt) : ""),
                 dependence_text(tag, tag ? tag->tag : "")});
}

Lines dependence_table(const Statistics& s) {
  using enum Table::Align;
  Table table({{"layer", Right},
               {"site"},
               {"beyond absmax", Right},
               {formatted("beyond %.3g x absmax", headroom()), Right},
               {"depends on prompt"},
               {"on tag"}},
              2);
  for (const CacheStatistics& c : s.caches) {
    if (c.layout.is_mla()) add_site(table, c.layout.layer, "row", latent_row(c), s.run);
    for (const CacheSite site : sites_of(c.layout))
      if (site != CacheSite::Latent && site != CacheSite::Rope)
        add_site(table, c.layout.layer, std::string(name_of(site)), c.at(site), s.run);
  }
  return table.text();
}

/// "83.1 % (layer 3)"
std::string share_text(const Json& group, const char* site) {
  const Json* share = find_member(group, site);
  if (share == nullptr) return "-";
  return formatted("%.3g %%", 100 * get_number(*share, "share")) + " (layer " +
         std::to_string(get_int(*share, "layer")) + ")";
}

Lines groups_table(const Statistics& s) {
  const Json by = ranges_by(s);
  if (by.is_null()) return {};
  const bool mla = !s.caches.empty() && s.caches.front().layout.is_mla();
  using enum Table::Align;
  std::vector<Table::Column> columns = {{"by"}, {"name"}, {"count", Right}};
  const std::vector<const char*> sites = mla ? std::vector{"latent", "query"} : std::vector{"key", "value", "query"};
  for (const char* site : sites) columns.push_back({std::string(site) + " reaches", Right});
  Table table(columns, 2);
  for (const auto& [grouping, groups] : by.items())
    for (const Json& group : groups) {
      std::vector<std::string> row = {grouping, quoted(get_string(group, "name")),
                                      grouped(get_int(group, grouping == "tag" ? "prompts" : "tokens"))};
      for (const char* site : sites) row.push_back(share_text(group, site));
      table.add_row(row);
    }
  return Lines("") + Lines("largest share of a site's absmax, in any layer:") + table.text();
}

}  // namespace

Json evidence_json(const SiteStatistics& site, const RunRecord& run) {
  const std::vector<float> maxima = prompt_maxima(site, run.n_passes);
  const double limit = AssessmentLimits().dependence;
  Json json = {{"depends_on", nullptr}, {"depends_on_tag", nullptr}, {"coverage", nullptr}};
  if (const auto d = depends_on_prompt(maxima, limit))
    json["depends_on"] = {{"prompt", run.prompt_ids.at(d->prompt)}, {"ratio", number_or_null(d->ratio)}};
  if (const auto d = depends_on_tag(maxima, run.tags, limit))
    json["depends_on_tag"] = {{"tag", d->tag}, {"ratio", number_or_null(d->ratio)}};
  if (const auto c = range_coverage(maxima, headroom()))
    json["coverage"] = {{"beyond_absmax", json_number(static_cast<float>(c->beyond_absmax))},
                        {"headroom", headroom()},
                        {"beyond_headroom", number_or_null(c->beyond_headroom)}};
  json["by_tag"] = ranges_json(ranges_by_tag(site, run), "prompts");
  json["by_role"] = ranges_json(ranges_by_role(site), "tokens");
  json["by_turn"] = ranges_json(ranges_by_turn(site), "tokens");
  return json;
}

Lines evidence_tables(const Statistics& statistics) {
  if (statistics.run.prompt_ids.empty()) return {};
  return Lines("") + dependence_table(statistics) + groups_table(statistics);
}

}  // namespace kvcal
