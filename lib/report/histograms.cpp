// Magnitudes of every site, and what the format keeps of them at the chosen scale and at 1.0.
#include <algorithm>

#include "base/number_text.h"
#include "report/histogram_geometry.h"
#include "report/markup.h"
#include "report/sections.h"

namespace kvcal {
namespace {

// In octaves: from here on the format keeps anything at all, its full precision; up to here it does not clip.
struct Range {
  double lowest, normal, highest;
};

Range range_at(double scale, const NumberFormat& format) {
  const double octaves = log2_of(scale);
  return {log2_of(format.smallest_subnormal / 2) + octaves, log2_of(format.smallest_normal) + octaves,
          log2_of(format.max) + octaves};
}

struct Chart {
  std::string title, label;
  Range at_scale, at_one;
  double scale;
  std::vector<OctaveShare> shares;
};

// One pair of axes for all charts, so that they can be compared.
HistogramAxes axes_for(const std::vector<Chart>& charts) {
  constexpr int kLowest = -48, kHighest = 48;
  double low = 0, high = 1;
  for (const Chart& c : charts) {
    low = std::min({low, c.at_one.lowest, c.at_scale.lowest});
    high = std::max({high, c.at_one.highest, c.at_scale.highest});
    // Tails thinner than the axis shows do not widen it.
    for (const OctaveShare& s : c.shares)
      if (s.share >= 1e-9) {
        low = std::min(low, static_cast<double>(s.octave));
        high = std::max(high, s.octave + 1.0);
      }
  }
  HistogramAxes axes;
  axes.low = std::clamp(static_cast<int>(low) - 1, kLowest, 0);
  axes.high = std::clamp(static_cast<int>(high) + 1, 1, kHighest);
  axes.octave_width = std::max(5.0, 300.0 / (axes.high - axes.low));
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
  std::string out = svg_line("axis", axes.left, axes.bottom(), axes.left + axes.width(), axes.bottom());
  for (const double share : {1.0, 1e-3, 1e-6}) {
    out += svg_line("rule", axes.left, axes.y(share), axes.left + axes.width(), axes.y(share));
    out += svg_text("a e", axes.left - 3, axes.y(share) + 3, share == 1 ? "1" : share > 1e-4 ? "1e-3" : "1e-6");
  }
  const int step = axes.high - axes.low > 40 ? 16 : 8;
  for (int octave = axes.low; octave <= axes.high; ++octave)
    if (octave % step == 0) {
      out += svg_line("axis", axes.x(octave), axes.bottom(), axes.x(octave), axes.bottom() + 3);
      out += svg_text("a m", axes.x(octave), axes.bottom() + 13, power_of_two(octave));
    }
  return out;
}

std::string alternative(const Chart& c) {
  double lost = 0, lost_at_one = 0;
  for (const OctaveShare& s : c.shares) {
    if (s.octave + 1 <= c.at_scale.lowest || s.octave >= c.at_scale.highest) lost += s.share;
    if (s.octave + 1 <= c.at_one.lowest || s.octave >= c.at_one.highest) lost_at_one += s.share;
  }
  const std::string span = c.shares.empty() ? "no values"
                                            : "values from " + power_of_two(c.shares.front().octave) + " to " +
                                                  power_of_two(c.shares.back().octave + 1);
  return c.label + ": " + span + "; in octaves wholly out of range at scale " + figure_text(c.scale) + ": " +
         share_in_percent(lost) + ", at scale 1.0: " + share_in_percent(lost_at_one);
}

std::string figure(const Chart& c, const HistogramAxes& axes) {
  std::string body = field(axes);
  for (const Bar& bar : bars_of(c.shares, axes, c.at_scale.lowest, c.at_scale.highest))
    body += svg_rect(bar.lost ? "lost" : "bar", bar.x, bar.y, bar.width, bar.height);
  body += range_line(c.at_scale, axes, axes.bottom() + 24, "", "scale");
  body += range_line(c.at_one, axes, axes.bottom() + 36, "1", "1.0");
  return "<figure><figcaption>" + c.title + ", scale " + figure_text(c.scale) + "</figcaption>" +
         drawing(axes.left + axes.width() + 12, axes.bottom() + 44, alternative(c), body) + "</figure>\n";
}

std::vector<Chart> charts_of(const ReportInput& input) {
  const NumberFormat& format = number_format(input.artifact.quantization.dtype);
  std::vector<Chart> charts;
  for (const auto& [layer, path] : listed_layers(input.artifact)) {
    const CacheStatistics* cache = cache_of(input, layer);
    if (!cache) continue;
    for (const NamedSite& site : sites_of(layer)) {
      const double scale = static_cast<double>(site.site->scale);
      const std::string name = site_title(input, layer, site.name);
      const Assessment& answers = site.site->assessment;
      charts.push_back({name + " " + badge(answers.scale) + " " + badge(answers.fp8), name, range_at(scale, format),
                        range_at(1, format), scale, octave_shares(measured_site(*cache, site.name).heads)});
    }
  }
  return charts;
}

}  // namespace

std::string histogram_section(const ReportInput& input) {
  const std::vector<Chart> charts = charts_of(input);
  if (charts.empty()) return "";
  const HistogramAxes axes = axes_for(charts);
  std::string figures;
  for (const Chart& c : charts) figures += figure(c, axes);
  return "<p>Share of all values by magnitude, one bar for each factor of two; both axes are logarithmic. The two "
         "lines below show what " +
         escaped(input.artifact.quantization.dtype) +
         " keeps at the chosen scale and at scale 1.0: dashed where numbers are coarse (subnormal), solid with full "
         "precision, ended where "
         "larger values are clipped. What lies left of a line becomes zero. Bars in the second color are lost at the "
         "chosen "
         "scale. The two words are the answers of the <a href=\"#layers\">table of layers</a>.</p>\n<div "
         "class=\"grid\">\n" +
         figures + "</div>\n";
}

}  // namespace kvcal
