// Each cache site in this format and others.
#include "base/number_text.h"
#include "report/markup.h"
#include "report/sections.h"
#include "solve/format_errors.h"

namespace kvcal {
namespace {

CacheSite site_named(std::string_view name) {
  return name == "key" ? CacheSite::Key : name == "value" ? CacheSite::Value : CacheSite::Latent;
}

struct WorstSite {
  double error = -1;  // none has it
  std::string title;
};
using WorstSites = std::vector<WorstSite>;

std::string worst_table(const WorstSites& worst) {
  HtmlTable table("Relative RMS error of the worst head of all", {{"format"}, {"error", true}, {"where"}});
  for (size_t i = 0; i < worst.size(); ++i)
    if (worst[i].error >= 0)
      table.add_row({format_columns()[i].title, share_in_percent(worst[i].error), worst[i].title});
  return table.html();
}

}  // namespace

std::string formats_section(const ReportInput& input) {
  if (!input.statistics) return "";
  std::vector<HtmlTable::Column> columns = {{"layer", true}, {"site"}};
  for (const FormatColumn& column : format_columns()) columns.push_back({column.title, true});
  HtmlTable table("Relative RMS error of the worst head in each format", columns);
  WorstSites worst(format_columns().size());
  for (const auto& [layer, path] : listed_layers(input.artifact))
    for (const NamedSite& named : cached_sites(layer)) {
      const CacheStatistics* cache = cache_of(input, layer);
      if (!cache) continue;
      const FormatErrors errors = format_errors(*cache, site_named(named.name), input.statistics->run, input.options);
      std::vector<std::string> cells = {row_name(input.artifact, layer), named.name};
      for (size_t i = 0; i < format_columns().size(); ++i) {
        const std::optional<double>& error = errors.*format_columns()[i].error;
        cells.push_back(error ? share_in_percent(*error) : "-");
        if (error && *error >= worst[i].error) worst[i] = {*error, site_title(input, layer, named.name)};
      }
      table.add_row(cells);
    }
  return worst_table(worst) + fold("Every site", table.html()) +
         fold("What the formats are",
              "<p class=\"help\">fp8_e4m3, fp8_e5m2, int8: one static scale, chosen by the policy of this page. "
              "fp8_e4m3 "
              "per row: a scale for each token and head, as it is written; where that is no better, a static scale "
              "does. "
              "int8 per channel: each channel at its own largest magnitude; predicted. nvfp4: blocks of 16 channels. "
              "int4 "
              "per row: as vLLM's int4_per_token_head. Per row and nvfp4 are of sampled tokens; \"-\" where none were, "
              "and "
              "for int4 of rows of MLA, which no server stores so, and of statistics of an older kvcal.</p>\n");
}

}  // namespace kvcal
