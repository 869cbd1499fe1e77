// The bars of a magnitude histogram: octaves to the right, shares upwards, both on logarithmic axes, since the values
// that a scale loses are rare.
#pragma once

#include <span>
#include <vector>

#include "stats/statistics.h"

namespace kvcal {

/// The share of a site's values whose magnitude is in [2^octave, 2^(octave+1)).
struct OctaveShare {
  int octave = 0;
  double share = 0;
};

/// Ascending, none empty; zeros have no octave, but count among all values.
std::vector<OctaveShare> octave_shares(std::span<const HeadStatistics> heads);

double log2_of(double x);  // x > 0; the same bits on every machine

struct HistogramAxes {
  int low = -16, high = 16;                // octaves [low, high) are drawn; what lies outside goes to the outermost
  double left = 30, top = 6;               // of the field, in units of the drawing
  double octave_width = 10, height = 100;  // of one octave; of the field
  static constexpr int kDecades = 9;       // from a share of 1 at the top to 10^-9 at the bottom

  double width() const { return octave_width * (high - low); }
  double bottom() const { return top + height; }
  double x(double log2_magnitude) const;  // clamped to the field
  double y(double share) const;           // clamped to the field
};

struct Bar {
  double x = 0, y = 0, width = 0, height = 0;
  bool lost = false;  // the whole octave is clipped or rounded to zero
};

/// One bar per octave, all at least one unit high. Lost are octaves that lie wholly below 2^lowest, what the format
/// still tells from zero, or wholly above 2^highest.
std::vector<Bar> bars_of(std::span<const OctaveShare> shares, const HistogramAxes& axes, double lowest, double highest);

}  // namespace kvcal
