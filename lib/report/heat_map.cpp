// The largest magnitude of every head of every layer, as a map for each site.
#include <algorithm>
#include <limits>
#include <set>

#include "base/number_text.h"
#include "report/heat_map_geometry.h"
#include "report/histogram_geometry.h"
#include "report/markup.h"
#include "report/problems.h"
#include "report/sections.h"

namespace kvcal {

size_t heads_per_cell(size_t n_heads) { return std::max<size_t>(1, (n_heads + kMostColumns - 1) / kMostColumns); }

std::vector<float> cells_of(std::span<const float> absmax_per_head, size_t heads) {
  std::vector<float> cells;
  for (size_t from = 0; from < absmax_per_head.size(); from += heads) {
    const auto group = absmax_per_head.subspan(from, std::min(heads, absmax_per_head.size() - from));
    cells.push_back(*std::max_element(group.begin(), group.end()));
  }
  return cells;
}

int shade_of(double absmax, double low, double high) {
  if (!(low > 0 && high > low)) return kShades / 2;
  if (!(absmax > low)) return 0;
  const double place = (log2_of(absmax) - log2_of(low)) / (log2_of(high) - log2_of(low));
  return std::clamp(static_cast<int>(place * kShades), 0, kShades - 1);
}

namespace {

constexpr double kCellWidth = 18, kCellHeight = 14, kLeft = 34, kTop = 16;

struct MapRow {
  std::string name, title;
  std::vector<float> heads;
};

struct HeatMap {
  std::vector<MapRow> rows;
  size_t columns = 0, heads_per_cell = 1;
  double low = std::numeric_limits<double>::max(), high = 0;
};

HeatMap map_of(const ReportInput& input, const std::string& site) {
  HeatMap map;
  size_t n_heads = 0;
  for (const auto& [layer, path] : listed_layers(input.artifact))
    for (const NamedSite& named : sites_of(layer))
      if (named.name == site) {
        map.rows.push_back({row_name(input.artifact, layer), layer_title(input, layer), named.site->absmax_per_head});
        n_heads = std::max(n_heads, named.site->absmax_per_head.size());
      }
  map.heads_per_cell = heads_per_cell(n_heads);
  for (MapRow& row : map.rows) {
    row.heads = cells_of(row.heads, map.heads_per_cell);
    map.columns = std::max(map.columns, row.heads.size());
    for (const float x : row.heads) {
      if (x > 0) map.low = std::min(map.low, static_cast<double>(x));
      map.high = std::max(map.high, static_cast<double>(x));
    }
  }
  return map;
}

// At scale 1.0. Nothing is lost of a head that is zero throughout.
bool is_clipped(double absmax, const NumberFormat& format) { return absmax > format.max; }
bool is_small(double absmax, const NumberFormat& format) { return absmax > 0 && absmax < format.smallest_normal; }

// What scale 1.0 would do, by a mark that needs no color.
std::string mark_of(double absmax, const NumberFormat& format, double x, double y) {
  if (is_clipped(absmax, format))
    return "<path class=\"k\" d=\"M" + coordinate(x + 5) + " " + coordinate(y + 10) + "l4-7 4 7z\"/>";
  if (is_small(absmax, format))
    return "<path class=\"k\" d=\"M" + coordinate(x + 5) + " " + coordinate(y + 4) + "l4 7 4-7z\"/>";
  return "";
}

std::string column_name(const HeatMap& map, size_t column) {
  const size_t first = column * map.heads_per_cell;
  return map.heads_per_cell == 1
             ? "head " + std::to_string(first)
             : "heads " + std::to_string(first) + " to " + std::to_string(first + map.heads_per_cell - 1);
}

std::string row_markup(const HeatMap& map, size_t index, const NumberFormat& format) {
  const MapRow& row = map.rows[index];
  const double y = kTop + kCellHeight * static_cast<double>(index);
  std::string out = svg_text("a e", kLeft - 4, y + 11, row.name);
  for (size_t c = 0; c < row.heads.size(); ++c) {
    const auto absmax = static_cast<double>(row.heads[c]);
    const double x = kLeft + kCellWidth * static_cast<double>(c);
    out += "<g><title>" + row.title + ", " + column_name(map, c) + ": " + figure_text(absmax) + "</title>" +
           svg_rect("h" + std::to_string(shade_of(absmax, map.low, map.high)), x, y, kCellWidth - 1, kCellHeight - 1) +
           mark_of(absmax, format, x, y) + "</g>";
  }
  return out;
}

std::string map_markup(const HeatMap& map, const std::string& site, const NumberFormat& format) {
  std::string body;
  const size_t step = map.columns > 8 ? 8 : 1;
  for (size_t c = 0; c < map.columns; c += step)
    body += svg_text("a m", kLeft + kCellWidth * (static_cast<double>(c) + 0.5), kTop - 5,
                     std::to_string(c * map.heads_per_cell));
  for (size_t i = 0; i < map.rows.size(); ++i) body += row_markup(map, i, format);
  const std::string words = site + ": largest magnitudes of " + std::to_string(map.rows.size()) +
                            " layers (rows) by head (columns), from " + figure_text(map.low) + " to " +
                            figure_text(map.high) + "; the table of layers has the figures";
  return drawing(kLeft + kCellWidth * static_cast<double>(map.columns) + 2,
                 kTop + kCellHeight * static_cast<double>(map.rows.size()) + 2, words, body);
}

std::string legend(const HeatMap& map) {
  std::string body;
  for (int shade = 0; shade < kShades; ++shade) body += svg_rect("h" + std::to_string(shade), 18 * shade, 0, 17, 10);
  body += svg_text("a", 0, 21, figure_text(map.low)) + svg_text("a e", 18 * kShades, 21, figure_text(map.high));
  return drawing(18 * kShades, 25, "from light, " + figure_text(map.low) + ", to dark, " + figure_text(map.high), body);
}

std::string figure(const ReportInput& input, const std::string& site) {
  const HeatMap map = map_of(input, site);
  if (map.rows.empty() || map.columns == 0) return "";
  const std::string grouped_heads =
      map.heads_per_cell > 1 ? ", each cell the largest of " + std::to_string(map.heads_per_cell) + " heads" : "";
  return "<figure><figcaption>" + site + grouped_heads + "</figcaption>" +
         wide(map_markup(map, site, number_format(input.artifact.quantization.dtype))) + legend(map) + "</figure>\n";
}

/// "Of 16 heads, ..., 4 have values that scale 1.0 clips"
std::string beyond_one(const ReportInput& input, const NumberFormat& format) {
  int64_t n_heads = 0, n_clipped = 0, n_small = 0;
  std::set<int64_t> layers;
  for (const ListedSite& s : listed_sites(input.artifact))
    for (const float x : s.site.site->absmax_per_head) {
      const auto absmax = static_cast<double>(x);
      const bool clips = is_clipped(absmax, format), small = is_small(absmax, format);
      ++n_heads;
      n_clipped += clips ? 1 : 0;
      n_small += small ? 1 : 0;
      if (clips || small) layers.insert(s.layer->index);
    }
  const std::string of = "Of " + grouped(n_heads) + " heads, those of queries included, ";
  if (layers.empty())
    return of + "none has values that scale 1.0 clips, or only such that it rounds coarsely or to zero.";
  const std::vector<int64_t> indexes(layers.begin(), layers.end());
  return of + grouped(n_clipped) + " have values that scale 1.0 clips, " + grouped(n_small) +
         " only such that it rounds coarsely or to zero: layer(s) " + ranges_text(indexes) + ".";
}

}  // namespace

std::string heat_map_section(const ReportInput& input) {
  std::string figures;
  for (const char* site : {"key", "value", "latent", "query"}) figures += figure(input, site);
  const NumberFormat& format = number_format(input.artifact.quantization.dtype);
  return "<p>" + beyond_one(input, format) + "</p>\n" +
         fold("Largest magnitude of each head",
              "<p>A row for each layer with a cache; shades are even steps in powers of two, each map from its "
              "smallest to its largest. A triangle up: values of this head are clipped at scale 1.0 (above " +
                  figure_text(format.max) + "); a triangle down: all of them are coarse or lost there (below " +
                  figure_text(format.smallest_normal) + ").</p>\n<div class=\"grid\">\n" + figures + "</div>\n");
}

}  // namespace kvcal
