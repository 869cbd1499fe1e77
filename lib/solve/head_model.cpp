#include "solve/head_model.h"

#include <algorithm>
#include <cmath>

#include "stats/queries.h"

namespace kvcal {
namespace {

constexpr double kFarFromZero = 4;             // mean / standard deviation
constexpr double kShareThatCounts = 1.0 / 32;  // of all tokens, in an octave
constexpr double kNothing = 0x1p-18;           // of E[x²]: less is less than bfloat16 keeps

/// Var[r(x) - x] of the values of the head that are as large as this channel's are.
double error_variance(const HeadModel& head, double mean, double deviation) {
  const double reach = kFarFromZero * deviation + 1e-6 * mean;  // sums round
  const auto& counts = head.histogram->counts;
  const auto below = [](const auto& entry, double x) { return static_cast<double>(magnitude_of(entry.first)) < x; };
  double n = 0, sum = 0, squares = 0;
  for (auto at = std::lower_bound(counts.begin(), counts.end(), mean - reach, below); at != counts.end(); ++at) {
    const double x = magnitude_of(at->first), times = static_cast<double>(at->second);
    if (x > mean + reach) break;
    const double error = round_trip(*head.format, x, head.scale) - x;
    n += times;
    sum += times * error;
    squares += times * error * error;
  }
  return n > 0 ? std::max(0.0, squares / n - sum / n * (sum / n)) : 0;
}

}  // namespace

HeadModel model_of(const MagnitudeHistogram& histogram, const NumberFormat& format, double scale) {
  HeadModel model;
  model.histogram = &histogram;
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

bool is_far_from_zero(double mean, double variance) { return std::fabs(mean) > kFarFromZero * std::sqrt(variance); }

double varying_error(const ChannelStatistics& channel, const HeadModel& head, uint64_t n_tokens) {
  const double offset = mean(channel, n_tokens), spread = variance(channel, n_tokens);
  if (is_far_from_zero(offset, spread)) return error_variance(head, std::fabs(offset), std::sqrt(spread));
  return mean_squared_error(channel, head, n_tokens);
}

std::vector<std::span<const OctaveMoments>> populations_of(const ChannelStatistics& channel, uint64_t n_tokens) {
  std::vector<std::span<const OctaveMoments>> populations;
  const OctaveMoments* last = nullptr;
  for (const OctaveMoments& moments : channel.octaves) {
    if (static_cast<double>(moments.count) < kShareThatCounts * static_cast<double>(n_tokens)) continue;
    if (last && last->octave + 1 == moments.octave)
      populations.back() = {populations.back().data(), populations.back().size() + 1};
    else
      populations.emplace_back(&moments, 1);
    last = &moments;
  }
  return populations;
}

PopulationMoments::PopulationMoments(std::span<const OctaveMoments> octaves) {
  double sum = 0, signed_sum = 0;
  for (const OctaveMoments& moments : octaves) {
    n += static_cast<double>(moments.count);
    energy += energy_of(moments);
    sum += static_cast<double>(moments.sum_m) * octave_unit(moments.octave);
    signed_sum += static_cast<double>(moments.signed_sum_m) * octave_unit(moments.octave);
  }
  const auto around = [&](double total) {
    offset = std::fabs(total / n);
    spread = std::max(0.0, energy / n - offset * offset);
  };
  around(sum);
  if (!far_from_zero() || spread < kNothing * energy / n) around(signed_sum);
}

void PopulationErrors::add(const PopulationErrors& other, double weight) {
  error += weight * other.error;
  energy += weight * other.energy;
  varying_error += weight * other.varying_error;
  variance += weight * other.variance;
}

PopulationErrors errors_of_populations(const ChannelStatistics& channel, const HeadModel& head, uint64_t n_tokens) {
  PopulationErrors sum;
  for (const auto octaves : populations_of(channel, n_tokens)) {
    const PopulationMoments all(octaves);
    double error = 0;
    for (const OctaveMoments& moments : octaves) {
      const OctaveEnergy& octave = head.octaves[moments.octave];
      if (octave.total > 0) error += energy_of(moments) * octave.squared_error / octave.total;
    }
    const double varying =
        all.far_from_zero() ? all.n * error_variance(head, all.offset, std::sqrt(all.spread)) : error;
    sum.add({error, all.energy, varying, all.n * all.spread}, 1 / static_cast<double>(n_tokens));
  }
  return sum;
}

}  // namespace kvcal
