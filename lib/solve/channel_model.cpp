#include "solve/channel_model.h"

#include <algorithm>
#include <cmath>

#include "stats/queries.h"

namespace kvcal {
namespace {

/// Σ(x' - x) and Σ(x' - x)² of magnitudes.
struct Errors {
  double sum = 0, squares = 0;
};

/// Of n codes in a row the variance is (n² - 1) / 12.
Errors errors_in(const OctaveMoments& moments, uint16_t absmax, double step) {
  const auto n = static_cast<double>(moments.count);
  const double unit = octave_unit(moments.octave), mean = static_cast<double>(moments.sum_m) / n;
  if (256 * unit <= step / 2) return {-n * mean * unit, energy_of(moments)};  // all become zero
  const double variance = std::max(0.0, static_cast<double>(moments.sum_m2) / n - mean * mean);
  const double half = std::sqrt(3 * variance + 0.25);  // n / 2
  const int lowest = moments.octave == 0 ? 0 : 128;
  const int highest = moments.octave == absmax >> 7 ? lowest + (absmax & 127) : lowest + 127;
  double sum = 0, squares = 0, weights = 0;
  const int from = std::max(lowest, static_cast<int>(std::floor(mean - half + 0.5)));
  const int to = std::min(highest, static_cast<int>(std::ceil(mean + half - 0.5)));
  for (int m = from; m <= to; ++m) {
    const double weight = std::min(m + 0.5, mean + half) - std::max(m - 0.5, mean - half);
    const double steps = m * unit / step, error = std::nearbyint(steps) - steps;
    sum += weight * error;
    squares += weight * error * error;
    weights += weight;
  }
  if (weights <= 0) return {};
  return {n * step * sum / weights, n * step * step * squares / weights};
}

/// The squared error without the square of the mean: where all values have one sign.
double around_mean(const Errors& errors, double n) {
  return std::max(0.0, errors.squares - errors.sum * errors.sum / n);
}

}  // namespace

ChannelRounding rounding_of(const ChannelStatistics& channel, const NumberFormat& format, double scale,
                            uint64_t n_tokens) {
  const auto n_all = static_cast<double>(n_tokens);
  const auto errors_of = [&](std::span<const OctaveMoments> octaves) {
    Errors sum;
    for (const OctaveMoments& moments : octaves) {
      const Errors errors = errors_in(moments, channel.absmax, scale);
      sum.sum += errors.sum;
      sum.squares += errors.squares;
    }
    return sum;
  };
  ChannelRounding rounding;
  for (const auto octaves : populations_of(channel, n_tokens)) {
    const PopulationMoments moments(octaves);
    const Errors errors = errors_of(octaves);
    const double varying = moments.far_from_zero() ? around_mean(errors, moments.n) : errors.squares;
    rounding.of_populations.add({errors.squares, moments.energy, varying, moments.n * moments.spread}, 1 / n_all);
  }
  for (const OctaveMoments& moments : channel.octaves)
    if (256 * octave_unit(moments.octave) <= format.smallest_normal * scale)
      rounding.lost += energy_of(moments) / n_all;
  const Errors all = errors_of(channel.octaves);
  rounding.squared_error = all.squares / n_all;
  const bool far = is_far_from_zero(mean(channel, n_tokens), variance(channel, n_tokens));
  rounding.varying = (far ? around_mean(all, n_all) : all.squares) / n_all;
  return rounding;
}

}  // namespace kvcal
