// How much of the distribution survives, as a divergence: P is the distribution of the bf16 magnitudes; Q is what a
// reader of the stored codes can know of it, namely the mass of every stored level spread evenly over the magnitudes
// that fall on it (those that occur, weighted by the distance to the next bf16 number). Zeros are stored exactly and do
// not enter. With p, w the mass and width of a magnitude and P, W those of its level,
//   KL = Σ p log(p/q),  q = P w / W,   so   KL = Σ p log(p/w) - Σ_levels P log(P/W).
// After the entropy calibration of Migacz, "8-bit inference with TensorRT" (2017), without its coarse bins.
#include <algorithm>

#include "base/portable_math.h"
#include "solve/policies.h"

namespace kvcal {
namespace {

struct Magnitude {
  double x, p, width;
};

/// p · log(p / w), 0 where there is nothing.
double information(double mass, double width) { return mass > 0 ? mass * portable_log(mass / width) : 0.0; }

std::vector<Magnitude> magnitudes_of(const MagnitudeHistogram& histogram) {
  double n = 0;
  for (const auto& [code, count] : histogram.counts) n += static_cast<double>(count);
  std::vector<Magnitude> out;
  for (const auto& [code, count] : histogram.counts) {
    const double x = magnitude_of(code);
    // The largest code's upper neighbour is infinity, so the width is taken downwards there.
    const double width = code == 0x7F7F ? x - magnitude_of(0x7F7E) : magnitude_of(static_cast<uint16_t>(code + 1)) - x;
    out.push_back({x, static_cast<double>(count) / n, width});
  }
  return out;
}

/// Σ over levels; magnitudes ascend, so each level is a run of them.
double information_of_levels(const std::vector<Magnitude>& magnitudes, const NumberFormat& format, double scale) {
  double sum = 0, mass = 0, width = 0, level = -1;
  for (const Magnitude& m : magnitudes) {
    const double here = round_to(format, m.x / scale);
    if (here != level) {
      sum += information(mass, width);
      level = here;
      mass = width = 0;
    }
    mass += m.p;
    width += m.width;
  }
  return sum + information(mass, width);
}

}  // namespace

double kl_scale(const PolicyInput& in) {
  const std::vector<Magnitude> magnitudes = magnitudes_of(in.histogram);
  double exact = 0;
  for (const Magnitude& m : magnitudes) exact += information(m.p, m.width);
  const std::vector<double> candidates = scale_candidates(in);
  std::vector<double> costs;
  for (const double scale : candidates) {
    const double divergence = exact - information_of_levels(magnitudes, in.format, scale);
    costs.push_back(divergence > 1e-12 ? divergence : 0.0);  // below is rounding of the sums
  }
  return cheapest(candidates, costs);
}

}  // namespace kvcal
