// Where the largest magnitudes stand: the token that did it, and the channel that stands out.
#include <algorithm>

#include "base/number_text.h"
#include "report/markup.h"
#include "report/problems.h"
#include "report/sections.h"
#include "stats/queries.h"

namespace kvcal {
namespace {

// The channel with the largest magnitude, and how many times the median channel's it is.
std::string channel_text(const SiteStatistics& site) {
  if (site.channels.empty() || site.heads.empty()) return "-";
  std::vector<uint16_t> codes;
  for (const ChannelStatistics& c : site.channels) codes.push_back(c.absmax);
  const size_t largest = static_cast<size_t>(std::max_element(codes.begin(), codes.end()) - codes.begin());
  const size_t width = std::max<size_t>(1, codes.size() / site.heads.size());
  const auto absmax = static_cast<double>(magnitude_of(codes[largest]));
  std::nth_element(codes.begin(), codes.begin() + static_cast<std::ptrdiff_t>(codes.size() / 2), codes.end());
  const auto median = static_cast<double>(magnitude_of(codes[codes.size() / 2]));
  if (!(absmax > 0)) return "-";  // queries keep no maxima of channels
  return "head " + std::to_string(largest / width) + " channel " + std::to_string(largest % width) +
         (median > 0 ? ", " + figure_text(absmax / median) + " times the median channel" : "");
}

std::string tail_text(const SiteStatistics& site) {
  if (site.heads.empty()) return "-";
  const auto bulk = static_cast<double>(quantile(site, 0.9999)), absmax = static_cast<double>(absmax_of(site));
  return bulk > 0 ? figure_text(absmax / bulk) : "-";
}

// Of an MLA row the channels of both parts stand side by side, in widths of their own.
std::string row_channel_text(const SiteStatistics& site, const ArtifactWhere& where, bool is_row) {
  return is_row ? "channel " + std::to_string(where.channel) + " of the row" : channel_text(site);
}

std::vector<std::string> row_of(const ReportInput& input, const ArtifactLayer& layer, const NamedSite& named) {
  const ArtifactWhere& w = named.site->where;
  std::vector<std::string> cells = {row_name(input.artifact, layer),
                                    named.name,
                                    figure_text(static_cast<double>(named.site->absmax)),
                                    escaped(w.prompt),
                                    std::to_string(w.token),
                                    std::to_string(w.position),
                                    std::to_string(w.pass),
                                    std::to_string(w.head),
                                    std::to_string(w.channel)};
  if (const CacheStatistics* cache = cache_of(input, layer)) {
    const SiteStatistics site = measured_site(*cache, named.name);
    cells.push_back(tail_text(site));
    cells.push_back(row_channel_text(site, w, layer.is_mla() && std::string_view(named.name) == "latent"));
  }
  return cells;
}

}  // namespace

std::string outlier_section(const ReportInput& input) {
  std::vector<HtmlTable::Column> columns = {{"layer", true}, {"site"},        {"largest", true},
                                            {"prompt"},      {"token", true}, {"position", true},
                                            {"pass", true},  {"head", true},  {"channel", true}};
  if (input.statistics) {
    columns.push_back({"times the 99.99 % quantile", true});
    columns.push_back({"outlier channel"});
  }
  HtmlTable table("The largest magnitude of each site, and its token", columns);
  size_t n_sites = 0, n_first = 0;
  for (const ListedSite& s : listed_sites(input.artifact)) {
    table.add_row(row_of(input, *s.layer, s.site));
    ++n_sites;
    n_first += s.site.site->where.token == 0 ? 1 : 0;
  }
  return "<p>At " + grouped(static_cast<int64_t>(n_first)) + " of " + grouped(static_cast<int64_t>(n_sites)) +
         " sites the largest magnitude is of the first token of a prompt" +
         (n_first > 0 ? ", mostly an attention sink" : "") + ".</p>\n" +
         fold("Every site",
              table.html() +
                  "<p class=\"help\">token: in its prompt; position: in the sequence that the prompt was part of. A "
                  "channel far above the median costs the others precision, whatever the scale.</p>\n");
}

}  // namespace kvcal
