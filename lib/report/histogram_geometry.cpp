#include "report/histogram_geometry.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/portable_math.h"

namespace kvcal {
namespace {

constexpr double kLn2 = 0.69314718055994530942, kLn10 = 2.30258509299404568402;

// Of a bf16 code that is not zero. Subnormals reach further down than their exponent field says.
int octave_of(uint16_t code) {
  int exponent = 0;
  std::frexp(magnitude_of(code), &exponent);
  return exponent - 1;
}

}  // namespace

double log2_of(double x) { return portable_log(x) / kLn2; }

std::vector<OctaveShare> octave_shares(std::span<const HeadStatistics> heads) {
  std::map<int, uint64_t> counts;
  uint64_t n = 0;
  for (const HeadStatistics& head : heads) {
    n += head.histogram.observations();
    for (const auto& [code, count] : head.histogram.counts) counts[octave_of(code)] += count;
  }
  std::vector<OctaveShare> shares;
  for (const auto& [octave, count] : counts)
    shares.push_back({octave, static_cast<double>(count) / static_cast<double>(n)});
  return shares;
}

double HistogramAxes::x(double log2_magnitude) const {
  return left + octave_width * (std::clamp(log2_magnitude, static_cast<double>(low), static_cast<double>(high)) - low);
}

double HistogramAxes::y(double share) const {
  const double decades = share > 0 ? -portable_log(share) / kLn10 : kDecades;
  return top + height * std::clamp(decades / kDecades, 0.0, 1.0);
}

std::vector<Bar> bars_of(std::span<const OctaveShare> shares, const HistogramAxes& axes, double lowest,
                         double highest) {
  std::map<int, OctaveShare> drawn;  // by the octave where it is drawn
  for (const OctaveShare& s : shares) {
    const int octave = std::clamp(s.octave, axes.low, axes.high - 1);
    drawn[octave].octave = octave;
    drawn[octave].share += s.share;
  }
  std::vector<Bar> bars;
  for (const auto& [octave, s] : drawn) {
    Bar bar;
    bar.x = axes.x(octave);
    bar.width = axes.octave_width - 1;
    bar.y = std::min(axes.y(s.share), axes.bottom() - 1);
    bar.height = axes.bottom() - bar.y;
    bar.lost = octave + 1 <= lowest || octave >= highest;
    bars.push_back(bar);
  }
  return bars;
}

}  // namespace kvcal
