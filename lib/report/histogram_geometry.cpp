#include "report/histogram_geometry.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/portable_math.h"

namespace kvcal {
namespace {

constexpr double kLn2 = 0.69314718055994530942;

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

double HistogramAxes::y(double share) const { return bottom() - height * std::clamp(share / top_share, 0.0, 1.0); }

bool is_lost(const OctaveShare& share, const KeptOctaves& kept) {
  return share.octave + 1 <= kept.lowest || share.octave >= kept.highest;
}

double lost_share(std::span<const OctaveShare> shares, const KeptOctaves& kept) {
  double lost = 0;
  for (const OctaveShare& s : shares) lost += is_lost(s, kept) ? s.share : 0;
  return lost;
}

double lost_rms(std::span<const OctaveShare> shares, const KeptOctaves& kept) {
  double lost = 0, all = 0;
  for (const OctaveShare& s : shares) {
    const double square = std::ldexp(s.share, 2 * s.octave);
    all += square;
    lost += is_lost(s, kept) ? square : 0;
  }
  return all > 0 ? std::sqrt(lost / all) : 0;
}

std::vector<Bar> bars_of(std::span<const OctaveShare> shares, const HistogramAxes& axes, const KeptOctaves& kept) {
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
    bar.y = axes.y(s.share);
    bar.height = axes.bottom() - bar.y;
    bar.lost = is_lost(s, kept);
    bars.push_back(bar);
  }
  return bars;
}

}  // namespace kvcal
