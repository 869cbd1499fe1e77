#include "artifact/ranges_by.h"

#include <algorithm>
#include <functional>

#include "artifact/json_text.h"
#include "stats/group_ranges.h"

namespace kvcal {
namespace {

using Grouping = std::function<std::vector<GroupRange>(const SiteStatistics&)>;

/// Raises the group's share of a site.
void add_share(Json& group, const char* site, float share, int layer) {
  Json& entry = group[site];
  if (entry.is_null() || share > entry["share"].get<float>()) entry = {{"share", json_number(share)}, {"layer", layer}};
}

class Groups {
 public:
  Groups(Grouping grouping, const char* counted) : grouping_(std::move(grouping)), counted_(counted) {}

  void add(const char* name, const SiteStatistics& site, int layer) {
    const float absmax = absmax_of(site);
    if (!(absmax > 0)) return;
    for (const GroupRange& range : grouping_(site)) {
      const auto at = std::ranges::find_if(groups_, [&](const Json& g) { return g["name"] == range.name; });
      Json& group = at == groups_.end() ? groups_.emplace_back(Json{{"name", range.name}, {counted_, range.n}}) : *at;
      add_share(group, name, range.absmax / absmax, layer);
    }
  }

  const std::vector<Json>& groups() const { return groups_; }

 private:
  Grouping grouping_;
  const char* counted_;
  std::vector<Json> groups_;
};

}  // namespace

Json ranges_by(const Statistics& statistics) {
  const RunRecord& run = statistics.run;
  std::pair<const char*, Groups> all[] = {
      {"tag", {[&](const SiteStatistics& site) { return ranges_by_tag(site, run); }, "prompts"}},
      {"role", {ranges_by_role, "tokens"}},
      {"turn", {ranges_by_turn, "tokens"}}};
  for (const CacheStatistics& cache : statistics.caches) {
    const int layer = cache.layout.layer;
    if (run.model && run.model->is_mtp(layer)) continue;
    for (auto& entry : all) {
      if (cache.layout.is_mla()) {
        entry.second.add("latent", latent_row(cache), layer);
      } else {
        entry.second.add("key", cache.at(CacheSite::Key), layer);
        entry.second.add("value", cache.at(CacheSite::Value), layer);
      }
      entry.second.add("query", cache.at(CacheSite::Query), layer);
    }
  }
  Json block = nullptr;
  for (const auto& [name, groups] : all)
    if (groups.groups().size() > (std::string_view(name) == "tag" ? 0 : 1)) block[name] = groups.groups();
  return block;
}

}  // namespace kvcal
