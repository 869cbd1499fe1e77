#include "stats_formats.h"

#include <algorithm>

#include "artifact/json_text.h"
#include "base/number_text.h"
#include "solve/format_errors.h"
#include "table.h"

namespace kvcal {
namespace {

std::string percent(const std::optional<double>& error) { return error ? formatted("%.3g %%", 100 * *error) : "-"; }

/// The sites that are stored, and what `kvcal stats` calls them.
std::vector<std::pair<CacheSite, const char*>> stored_sites(const KvLayout& layout) {
  if (layout.is_mla()) return {{CacheSite::Latent, "row"}};
  return {{CacheSite::Key, "key"}, {CacheSite::Value, "value"}};
}

}  // namespace

Json formats_json(const CacheStatistics& cache, CacheSite site, const RunRecord& run) {
  const FormatErrors errors = format_errors(cache, site, run, SolveOptions{});
  Json json = Json::object();
  for (const FormatColumn& column : format_columns()) {
    const std::optional<double>& error = errors.*column.error;
    json[column.key] = error ? json_number(static_cast<float>(*error)) : Json(nullptr);
  }
  json["sampled_rows"] = errors.sampled_rows;
  return json;
}

Lines formats_table(const Statistics& statistics) {
  using enum Table::Align;
  std::vector<Table::Column> columns = {{"layer", Right}, {"site"}};
  for (const FormatColumn& column : format_columns()) columns.push_back({column.title, Right});
  Table table(columns, 2);
  uint64_t sampled_rows = 0;
  bool lacks_int4 = false;
  for (const CacheStatistics& cache : statistics.caches)
    for (const auto& [site, name] : stored_sites(cache.layout)) {
      const FormatErrors errors = format_errors(cache, site, statistics.run, SolveOptions{});
      std::vector<std::string> cells = {std::to_string(cache.layout.layer), name};
      for (const FormatColumn& column : format_columns()) cells.push_back(percent(errors.*column.error));
      table.add_row(std::move(cells));
      sampled_rows = std::max(sampled_rows, errors.sampled_rows);
      lacks_int4 |= errors.sampled_rows > 0 && !errors.int4_per_row;
    }
  const std::string sampled = sampled_rows == 0
                                  ? " and nvfp4: not sampled, as in statistics of an older kvcal"
                                  : " and nvfp4: from " + std::to_string(sampled_rows) + " sampled tokens";
  return table.text() +
         Lines(
             "relative RMS error of the worst head, at the default policy's scales; per row (a scale for each token "
             "and "
             "head)" +
             sampled + (lacks_int4 ? "; int4: not for rows of MLA, nor from statistics of an older kvcal" : "") + ".");
}

}  // namespace kvcal
