// kvcal stats FILE: what a statistics file holds.
#include <CLI/CLI.hpp>
#include <span>

#include "artifact/json_text.h"
#include "base/counted.h"
#include "base/number_text.h"
#include "idle_options.h"
#include "progress.h"
#include "stats/further_members.h"
#include "stats/queries.h"
#include "stats/statistics_file.h"
#include "stats_formats.h"
#include "stats_groups.h"
#include "table.h"
#include "terminal.h"
#include "verbs.h"

namespace kvcal {
namespace {

struct StatsFlags {
  std::string file;
  bool json = false, formats = false;
};

constexpr std::array kQuantiles = {0.5, 0.99, 0.9999};

Json where_json(const Provenance& w, const RunRecord& run) {
  return {{"pass", w.pass},   {"prompt", run.prompt_ids.at(static_cast<size_t>(w.prompt))},
          {"token", w.token}, {"position", w.position},
          {"head", w.head},   {"channel", w.channel}};
}

Json head_json(const HeadStatistics& h, const RunRecord& run) {
  Json quantiles = Json::object();
  for (const double q : kQuantiles) quantiles[formatted("%.4g", q)] = json_number(quantile(h, q));
  return {{"absmax", json_number(magnitude_of(h.absmax))},
          {"observations", h.histogram.observations()},
          {"zeros", h.histogram.zeros},
          {"quantiles", quantiles},
          {"where", where_json(h.where, run)}};
}

Json site_json(const SiteStatistics& site, std::span<const HeadStatistics> heads_shown, const RunRecord& run) {
  Json heads = Json::array(), passes = Json::array(), positions = Json::array();
  for (const HeadStatistics& h : heads_shown) heads.push_back(head_json(h, run));
  for (const PassGrowth& g : pass_growth(site, run.n_passes))
    passes.push_back({{"pass", g.pass}, {"absmax", json_number(g.absmax)}, {"added", g.added}});
  for (const uint16_t code : site.position_absmax) positions.push_back(json_number(magnitude_of(code)));
  return {{"absmax", json_number(absmax_of(site))},
          {"tokens", site.n_tokens},
          {"passes", passes},
          {"heads", heads},
          {"absmax_by_position", positions},
          {"evidence", evidence_json(site, run)}};
}

Json state_json(const StateStatistics& s, const RunRecord& run) {
  Json heads = Json::array(), positions = Json::array();
  for (const HeadStatistics& h : s.counts.heads) heads.push_back(head_json(h, run));
  for (const uint16_t code : s.counts.position_absmax) positions.push_back(json_number(magnitude_of(code)));
  return {{"index", s.layout.layer},     {"kind", s.layout.kind}, {"absmax", json_number(absmax_of(s.counts))},
          {"states", s.counts.n_tokens}, {"heads", heads},        {"absmax_by_position", positions}};
}

Json to_json(const Statistics& s) {
  Json layers = Json::array();
  for (const CacheStatistics& c : s.caches) {
    Json layer = {{"index", c.layout.layer}, {"name", c.layout.name}};
    for (const CacheSite site : sites_of(c.layout))
      layer[std::string(name_of(site))] = site_json(c.at(site), c.at(site).heads, s.run);
    for (const CacheSite site : {CacheSite::Key, CacheSite::Value})
      if (!c.layout.is_mla()) layer[std::string(name_of(site))]["formats"] = formats_json(c, site, s.run);
    if (c.layout.is_mla()) {  // and both parts together
      const SiteStatistics row = latent_row(c);
      const HeadStatistics whole = pooled(row);
      layer["row"] = site_json(row, std::span(&whole, 1), s.run);
      layer["row"]["formats"] = formats_json(c, CacheSite::Latent, s.run);
    }
    layers.push_back(std::move(layer));
  }
  Json json = {{"format", kStatisticsFormat},
               {"version", version_of(s)},
               {"model", json_or_null(s.run.model)},
               {"calibration", json_or_null(s.run.calibration)},
               {"sanity", json_or_null(s.run.sanity)},
               {"plan_sha256", s.run.plan_sha256},
               {"n_passes", s.run.n_passes},
               {"n_prompts", s.run.prompt_ids.size()},
               {"layers", layers}};
  for (const StateStatistics& state : s.states) json["state_layers"].push_back(state_json(state, s.run));
  return json;
}

void add_rows(Table& table, int layer, std::string_view site, std::span<const HeadStatistics> heads,
              const RunRecord& run) {
  for (size_t h = 0; h < heads.size(); ++h) {
    const HeadStatistics& head = heads[h];
    std::vector<std::string> cells = {std::to_string(layer), std::string(site), std::to_string(h),
                                      grouped(static_cast<int64_t>(head.histogram.observations()))};
    for (const double q : kQuantiles) cells.push_back(formatted("%.4g", static_cast<double>(quantile(head, q))));
    cells.push_back(formatted("%.4g", static_cast<double>(magnitude_of(head.absmax))));
    const Provenance& w = head.where;
    cells.push_back(quoted(run.prompt_ids.at(static_cast<size_t>(w.prompt))));
    for (const int64_t n : {int64_t{w.token}, int64_t{w.channel}, int64_t{w.position}, int64_t{w.pass}})
      cells.push_back(std::to_string(n));
    table.add_row(std::move(cells));
  }
}

void print_text(const Statistics& s) {
  write_line(s.run.model ? line_of(quoted(s.run.model->architecture), ", ") : "",
             counted(static_cast<int64_t>(s.run.prompt_ids.size()), "prompt"), ", ",
             counted(s.run.n_passes, "pass", "passes"), ", plan ", s.run.plan_sha256.substr(0, 16));
  using enum Table::Align;
  Table table({{"layer", Right},
               {"site"},
               {"head", Right},
               {"observations", Right, 2},
               {"median", Right, 1},
               {"99 %", Right},
               {"99.99 %", Right},
               {"absmax", Right},
               {"of prompt"},
               {"token", Right, 3},
               {"channel", Right, 4},
               {"position", Right, 5},
               {"pass", Right, 6}},
              3);
  for (const CacheStatistics& c : s.caches) {
    for (const CacheSite site : sites_of(c.layout))
      add_rows(table, c.layout.layer, name_of(site), c.at(site).heads, s.run);
    if (c.layout.is_mla()) {
      const HeadStatistics row = pooled(latent_row(c));
      add_rows(table, c.layout.layer, "row", std::span(&row, 1), s.run);
    }
  }
  for (const StateStatistics& state : s.states) add_rows(table, state.layout.layer, "state", state.counts.heads, s.run);
  write_result(table.text());
  write_result(evidence_tables(s));
}

Exit run(const StatsFlags& flags) {
  const Statistics statistics = read_statistics(flags.file);
  if (flags.json)
    write_json(to_json(statistics));
  else if (flags.formats)
    write_result(formats_table(statistics));
  else
    print_text(statistics);
  return Exit::Done;
}

}  // namespace

void add_stats(CLI::App& app, Job& chosen) {
  auto flags = std::make_shared<StatsFlags>();
  CLI::App* verb = app.add_subcommand("stats", "Print the contents of a statistics file");
  verb->add_option("FILE", flags->file, "Statistics file (calibrate --stats)")->required();
  verb->add_flag("--json", flags->json, "One JSON object on standard output");
  verb->add_flag("--formats", flags->formats, "Instead: the error of each cache site in this and other number formats");
  verb->footer(
      "Examples:\n"
      "  kvcal stats run.kvstats\n"
      "  kvcal stats run.kvstats --formats\n"
      "  kvcal stats run.kvstats --json | jq '.layers[0].key.absmax'");
  verb->callback([flags, verb, &chosen] {
    if (flags->json) refuse_idle(*verb, "with --json, which has all of them", {"--formats"});
    chosen = [flags] { return run(*flags); };
  });
}

}  // namespace kvcal
