// The bars of a magnitude histogram: octaves to the right, shares upwards from 0, so that bars compare by their length.
// What is too rare for a bar shows in the extent of the values, and in figures.
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
  double top_share = 1;                    // at the top of the field; 0 at its bottom

  double width() const { return octave_width * (high - low); }
  double bottom() const { return top + height; }
  double x(double log2_magnitude) const;  // clamped to the field
  double y(double share) const;           // clamped to the field
};

struct Bar {
  double x = 0, y = 0, width = 0, height = 0;
  bool lost = false;  // the whole octave is clipped or rounded to zero
};

/// In octaves: from `lowest` on the format tells a number from zero, up to `highest` it does not clip.
struct KeptOctaves {
  double lowest = 0, highest = 0;
};

/// Lost are octaves that lie wholly outside.
bool is_lost(const OctaveShare& share, const KeptOctaves& kept);
double lost_share(std::span<const OctaveShare> shares, const KeptOctaves& kept);

/// What is lost relative to all values, both as RMS, each value as large as its octave's beginning.
double lost_rms(std::span<const OctaveShare> shares, const KeptOctaves& kept);

/// One bar per octave.
std::vector<Bar> bars_of(std::span<const OctaveShare> shares, const HistogramAxes& axes, const KeptOctaves& kept);

}  // namespace kvcal
