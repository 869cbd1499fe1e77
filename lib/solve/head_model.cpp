#include "solve/head_model.h"

#include <algorithm>
#include <cmath>

#include "stats/queries.h"

namespace kvcal {
namespace {

// From here on all values of a channel have one sign, and differ by less than their octave is wide.
constexpr double kFarFromZero = 4;  // mean / standard deviation

/// Var[r(x) - x] of normal numbers x: their quantiles are those of the number of heads in 64 tosses, which arithmetic
/// alone gives, the same everywhere.
double error_variance(const HeadModel& head, double mean, double deviation) {
  constexpr int kTosses = 64;
  double weight = 0x1p-64, sum = 0, squares = 0;  // weight: of k heads
  for (int k = 0; k <= kTosses; ++k) {
    const double x = mean + deviation * (k - kTosses / 2) / 4;  // 4 is the standard deviation of k
    const double error = round_trip(*head.format, x, head.scale) - x;
    sum += weight * error;
    squares += weight * error * error;
    weight *= static_cast<double>(kTosses - k) / (k + 1);
  }
  return std::max(0.0, squares - sum * sum);
}

}  // namespace

HeadModel model_of(const MagnitudeHistogram& histogram, const NumberFormat& format, double scale) {
  HeadModel model;
  model.format = &format;
  model.scale = scale;
  double n = static_cast<double>(histogram.zeros + histogram.under + histogram.over);
  double n_clipped = static_cast<double>(histogram.over);
  for (const auto& [code, count] : histogram.counts) {
    const double x = magnitude_of(code), times = static_cast<double>(count), energy = times * x * x;
    const double difference = round_trip(format, x, scale) - x;
    OctaveEnergy& octave = model.octaves[code >> 7];
    n += times;
    octave.total += energy;
    octave.squared_error += times * difference * difference;
    if (x > format.max * scale) {
      n_clipped += times;
      octave.clipped += energy;
    } else if (x < format.smallest_normal * scale) {
      octave.flushed += energy;
    }
  }
  OctaveEnergy all;
  for (const OctaveEnergy& octave : model.octaves) {
    all.total += octave.total;
    all.squared_error += octave.squared_error;
    all.clipped += octave.clipped;
    all.flushed += octave.flushed;
  }
  if (n > 0) model.error.clipped = n_clipped / n;
  if (all.total > 0) {
    model.error.error = std::sqrt(all.squared_error / all.total);
    model.error.lost = (all.clipped + all.flushed) / all.total;
  }
  return model;
}

double energy_of(const OctaveMoments& moments) {
  const double unit = octave_unit(moments.octave);
  return static_cast<double>(moments.sum_m2) * unit * unit;
}

double mean_squared_error(const ChannelStatistics& channel, const HeadModel& head, uint64_t n_tokens) {
  double sum = 0;
  for (const OctaveMoments& moments : channel.octaves) {
    const OctaveEnergy& octave = head.octaves[moments.octave];
    if (octave.total > 0) sum += energy_of(moments) * octave.squared_error / octave.total;
  }
  return sum / static_cast<double>(n_tokens);
}

double mean_square(const ChannelStatistics& channel, uint64_t n_tokens) {
  double sum = 0;
  for (const OctaveMoments& moments : channel.octaves) sum += energy_of(moments);
  return sum / static_cast<double>(n_tokens);
}

double mean(const ChannelStatistics& channel, uint64_t n_tokens) {
  double sum = 0;
  for (const OctaveMoments& moments : channel.octaves)
    sum += static_cast<double>(moments.signed_sum_m) * octave_unit(moments.octave);
  return sum / static_cast<double>(n_tokens);
}

double variance(const ChannelStatistics& channel, uint64_t n_tokens) {
  const double offset = mean(channel, n_tokens);
  return std::max(0.0, mean_square(channel, n_tokens) - offset * offset);
}

double varying_error(const ChannelStatistics& channel, const HeadModel& head, uint64_t n_tokens) {
  const double offset = mean(channel, n_tokens), spread = variance(channel, n_tokens);
  if (std::fabs(offset) > kFarFromZero * std::sqrt(spread)) return error_variance(head, offset, std::sqrt(spread));
  return std::min(mean_squared_error(channel, head, n_tokens), 4 * spread);
}

}  // namespace kvcal
