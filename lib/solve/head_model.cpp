#include "solve/head_model.h"

#include <algorithm>
#include <cmath>

#include "stats/queries.h"

namespace kvcal {

HeadModel model_of(const MagnitudeHistogram& histogram, const NumberFormat& format, double scale) {
  HeadModel model;
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

double variance(const ChannelStatistics& channel, uint64_t n_tokens) {
  double sum = 0;
  for (const OctaveMoments& moments : channel.octaves)
    sum += static_cast<double>(moments.signed_sum_m) * octave_unit(moments.octave);
  const double mean = sum / static_cast<double>(n_tokens);
  return std::max(0.0, mean_square(channel, n_tokens) - mean * mean);
}

double varying_error(const ChannelStatistics& channel, const HeadModel& head, uint64_t n_tokens) {
  return std::min(mean_squared_error(channel, head, n_tokens), 4 * variance(channel, n_tokens));
}

}  // namespace kvcal
