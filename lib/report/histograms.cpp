// Magnitudes of every site, and what the format keeps of them at the chosen scale and at 1.0.
#include <algorithm>

#include "base/number_text.h"
#include "report/histogram_geometry.h"
#include "report/markup.h"
#include "report/problems.h"
#include "report/sections.h"

namespace kvcal {
namespace {

/// `normal`: from there on with full precision.
struct Range : KeptOctaves {
  double normal = 0;
};

Range range_at(double scale, const NumberFormat& format) {
  const double octaves = log2_of(scale);
  return {{log2_of(format.smallest_subnormal / 2) + octaves, log2_of(format.max) + octaves},
          log2_of(format.smallest_normal) + octaves};
}

struct Chart {
  std::string title, label;
  Range at_scale, at_one;
  double scale = 1;
  std::vector<OctaveShare> shares;
  bool is_problem = false;
};

// One pair of axes for all charts, so that they can be compared.
HistogramAxes axes_for(const std::vector<Chart>& charts) {
  constexpr int kLowest = -48, kHighest = 48;
  constexpr double kShown = 1e-4;
  double low = 0, high = 1;
  for (const Chart& c : charts) {
    low = std::min({low, c.at_one.lowest, c.at_scale.lowest});
    high = std::max({high, c.at_one.highest, c.at_scale.highest});
    // Tails that no bar shows do not widen it.
    for (const OctaveShare& s : c.shares)
      if (s.share >= kShown) {
        low = std::min(low, static_cast<double>(s.octave));
        high = std::max(high, s.octave + 1.0);
      }
  }
  HistogramAxes axes;
  axes.low = std::clamp(static_cast<int>(low) - 1, kLowest, 0);
  axes.high = std::clamp(static_cast<int>(high) + 1, 1, kHighest);
  axes.left = 42;
  axes.octave_width = std::max(5.0, 300.0 / (axes.high - axes.low));
  double largest = 0;
  for (const Chart& c : charts)
    for (const OctaveShare& s : c.shares) largest = std::max(largest, s.share);
  axes.top_share = round_end(largest);
  return axes;
}

// Dashed where small numbers are coarse, solid where the precision is full, ended by a stroke where it clips.
std::string range_line(const Range& range, const HistogramAxes& axes, double y, const char* suffix, const char* label) {
  const std::string mark(suffix);
  return svg_line("sub" + mark, axes.x(range.lowest), y, axes.x(range.normal), y) +
         svg_line("keep" + mark, axes.x(range.normal), y, axes.x(range.highest), y) +
         svg_line("axis", axes.x(range.highest), y - 4, axes.x(range.highest), y + 4) +
         svg_text("a e", axes.left - 3, y + 3, label);
}

std::string power_of_two(int exponent) { return "2^" + std::to_string(exponent); }

std::string field(const HistogramAxes& axes) {
  std::string out;
  for (const double part : {0.0, 0.5, 1.0}) {
    const double y = axes.y(part * axes.top_share);
    out += svg_line(part == 0 ? "axis" : "rule", axes.left, y, axes.left + axes.width(), y);
    out += svg_text("a e", axes.left - 3, y + 4, formatted("%.3g %%", 100 * part * axes.top_share));
  }
  const int step = axes.high - axes.low > 40 ? 16 : 8;
  for (int octave = axes.low; octave <= axes.high; ++octave)
    if (octave % step == 0) {
      out += svg_line("axis", axes.x(octave), axes.bottom(), axes.x(octave), axes.bottom() + 3);
      out += svg_text("a m", axes.x(octave), axes.bottom() + 15, power_of_two(octave));
    }
  return out;
}

// From the smallest to the largest value, however rare; without an end where it goes on beyond the axes.
std::string extent_line(const Chart& c, const HistogramAxes& axes, double y) {
  if (c.shares.empty()) return "";
  const int lowest = c.shares.front().octave, highest = c.shares.back().octave + 1;
  std::string out =
      svg_text("a e", axes.left - 3, y + 4, "values") + svg_line("axis", axes.x(lowest), y, axes.x(highest), y);
  for (const int end : {lowest, highest})
    if (end >= axes.low && end <= axes.high) out += svg_line("axis", axes.x(end), y - 3, axes.x(end), y + 3);
  return out;
}

std::string out_of_range(const Chart& c) {
  return "out of range: " + share_in_percent(lost_share(c.shares, c.at_scale)) + ", at scale 1.0 " +
         share_in_percent(lost_share(c.shares, c.at_one));
}

std::string alternative(const Chart& c) {
  const std::string span = c.shares.empty() ? "no values"
                                            : "values from " + power_of_two(c.shares.front().octave) + " to " +
                                                  power_of_two(c.shares.back().octave + 1);
  return c.label + ", scale " + figure_text(c.scale) + ": " + span;
}

// `felt`: how large what is lost must be, relative to all values, to be marked.
std::string figure(const Chart& c, const HistogramAxes& axes, double felt) {
  const bool marks = lost_rms(c.shares, c.at_scale) >= felt;
  std::string body = field(axes);
  for (const Bar& bar : bars_of(c.shares, axes, c.at_scale))
    if (bar.height >= 0.05) body += svg_rect(bar.lost && marks ? "lost" : "bar", bar.x, bar.y, bar.width, bar.height);
  body += extent_line(c, axes, axes.bottom() + 29);
  body += range_line(c.at_scale, axes, axes.bottom() + 42, "", "scale");
  body += range_line(c.at_one, axes, axes.bottom() + 55, "1", "1.0");
  return "<figure><figcaption>" + c.title + ", scale " + figure_text(c.scale) + "<br/><span class=\"of\">" +
         out_of_range(c) + "</span></figcaption>" +
         drawing(axes.left + axes.width() + 20, axes.bottom() + 63, alternative(c), body) + "</figure>\n";
}

Chart chart_of(const ReportInput& input, const ListedSite& listed, const CacheStatistics& cache) {
  const NumberFormat& format = number_format(input.artifact.quantization.dtype);
  const ArtifactSite& site = *listed.site.site;
  const auto scale = static_cast<double>(site.scale);
  const std::string name = site_title(input, *listed.layer, listed.site.name);
  return {name + " " + badge(site.assessment.scale) + " " + badge(site.assessment.fp8),
          name,
          range_at(scale, format),
          range_at(1, format),
          scale,
          octave_shares(measured_site(cache, listed.site.name).heads),
          needs_something(site.assessment)};
}

/// Sites that need something first, in the order of their table.
std::vector<Chart> charts_of(const ReportInput& input) {
  std::vector<ListedSite> sites = problem_sites(input.artifact);
  for (const ListedSite& site : listed_sites(input.artifact))
    if (!needs_something(site.site.site->assessment)) sites.push_back(site);
  std::vector<Chart> charts;
  for (const ListedSite& site : sites)
    if (const CacheStatistics* cache = cache_of(input, *site.layer)) charts.push_back(chart_of(input, site, *cache));
  return charts;
}

constexpr size_t kOpenCharts = 6;

std::string grid(const std::string& figures) {
  return figures.empty() ? "" : "<div class=\"grid\">\n" + figures + "</div>\n";
}

}  // namespace

std::string histogram_section(const ReportInput& input) {
  const std::vector<Chart> charts = charts_of(input);
  if (charts.empty()) return "";
  const HistogramAxes axes = axes_for(charts);
  const double felt = input.artifact.quantization.limits.rel / 2;
  std::string open, rest;
  size_t n_open = 0;
  for (const Chart& c : charts) {
    const bool is_open = c.is_problem && n_open < kOpenCharts;
    n_open += is_open ? 1 : 0;
    (is_open ? open : rest) += figure(c, axes, felt);
  }
  const std::string dtype = escaped(input.artifact.quantization.dtype);
  return "<p>How large the numbers are, and which of them " + dtype + " keeps" +
         (n_open > 0 ? ": sites that need something, the worst first" : "") + ".</p>\n" + grid(open) +
         fold((n_open > 0 ? "The other " : "All ") + grouped(static_cast<int64_t>(charts.size() - n_open)) + " sites",
              grid(rest)) +
         fold("How to read these charts",
              "<p>A bar for each factor of two of the magnitude; its height is the share of all values, upwards from "
              "0. All charts have the same axes. Below it the extent of all values, however rare, without an end where "
              "it goes on; and what " +
                  dtype +
                  " keeps at the chosen scale and at scale 1.0: dashed where numbers are coarse (subnormal), solid "
                  "with full precision, ended where larger values are clipped. What lies left of a line becomes zero. "
                  "Out of range is the share in bars that lie wholly outside of the line.</p>\n<p>Red bars are "
                  "out of range at the chosen scale, and to lose them changes the numbers of the site by at least " +
                  share_in_percent(felt) +
                  " (RMS), from where on values are not fine (the limit of rel). The many that are next to zero, and "
                  "become zero in every model, change far less. Whether attention feels it, the two words say, the "
                  "answers of the <a href=\"#layers\">table of layers</a>.</p>\n");
}

}  // namespace kvcal
