#include "solve/error_model.h"

#include <algorithm>
#include <cmath>

#include "solve/channel_model.h"
#include "stats/queries.h"

namespace kvcal {
namespace {

/// Share of a channel's energy that is lost. Within an octave the channel is taken to be spread as its head is; where
/// its own largest value is not clipped, nothing of it is.
double lost_of(const ChannelStatistics& channel, const HeadModel& head, double largest_stored) {
  const bool clips = static_cast<double>(magnitude_of(channel.absmax)) > largest_stored;
  double total = 0, lost = 0;
  for (const OctaveMoments& moments : channel.octaves) {
    const OctaveEnergy& octave = head.octaves[moments.octave];
    const double energy = energy_of(moments);
    total += energy;
    if (octave.total > 0) lost += energy * ((clips ? octave.clipped : 0) + octave.flushed) / octave.total;
  }
  return total > 0 ? lost / total : 0;
}

/// The largest part of a sum over channels. RoPE spreads one large channel over the two of its pair, in equal parts
/// when the pair turns fast, so a pair counts as one.
double largest_part(std::span<const double> parts, const KvLayout& layout) {
  std::vector<bool> paired(parts.size(), false);
  double largest = 0;
  const int64_t n_pairs = pairs_of(layout, layout.is_mla() ? CacheSite::Rope : CacheSite::Key);
  for (int64_t pair = 0; pair < n_pairs; ++pair) {
    auto [a, b] = pair_channels(layout, pair);
    a += layout.latent_dim;
    b += layout.latent_dim;
    paired[static_cast<size_t>(a)] = paired[static_cast<size_t>(b)] = true;
    largest = std::max(largest, parts[static_cast<size_t>(a)] + parts[static_cast<size_t>(b)]);
  }
  for (size_t c = 0; c < parts.size(); ++c)
    if (!paired[c]) largest = std::max(largest, parts[c]);
  return largest;
}

/// Fills noise and dominating of one key head, whose channels have these squared errors, from the query heads that read
/// it.
void add_noise(const CacheStatistics& cache, size_t head, std::span<const double> key_error, HeadError& error) {
  const KvLayout& layout = cache.layout;
  const SiteStatistics& queries = cache.at(CacheSite::Query);
  if (queries.n_tokens == 0) return;
  const auto width = static_cast<size_t>(layout.head_dim_k);
  std::vector<double> parts(width);

  const auto group = static_cast<size_t>(layout.n_heads / layout.n_kv_heads);
  for (size_t query = head * group; query < (head + 1) * group; ++query) {
    double sum = 0;
    for (size_t c = 0; c < width; ++c) {
      parts[c] = mean_square(queries.channels[query * width + c], queries.n_tokens) * key_error[c];
      sum += parts[c];
    }
    const double noise = layout.softmax_scale * std::sqrt(sum);
    if (noise > error.noise) {
      error.noise = noise;
      error.dominating = largest_part(parts, layout) / sum;
    }
  }
}

/// Appends the varying errors of the channels of a key head, or of a part of a row.
void append_errors(std::span<const ChannelStatistics> channels, const HeadModel& model, uint64_t n_tokens,
                   std::vector<double>& errors) {
  for (const ChannelStatistics& channel : channels) errors.push_back(varying_error(channel, model, n_tokens));
}

/// Of one head whose channels have scales of their own.
HeadError error_by_channel(const CacheStatistics& cache, CacheSite site, size_t head, const NumberFormat& format,
                           std::span<const float> scales) {
  const SiteStatistics& statistics = cache.at(site);
  HeadError error;
  double energy = 0, squared_error = 0, lost = 0;
  std::vector<double> varying;
  for (size_t c = 0; c < scales.size(); ++c) {
    const ChannelStatistics& channel = statistics.channels[head * scales.size() + c];
    const double of_channel = mean_square(channel, statistics.n_tokens);
    const ChannelRounding rounding = rounding_of(channel, format, scales[c], statistics.n_tokens);
    energy += of_channel;
    squared_error += rounding.squared_error;
    lost += rounding.lost;
    varying.push_back(rounding.varying);
    if (site == CacheSite::Value && of_channel > 0) error.lost = std::max(error.lost, rounding.lost / of_channel);
  }
  if (energy > 0) {
    error.error = std::sqrt(squared_error / energy);
    error.lost = std::max(error.lost, lost / energy);
  }
  if (site == CacheSite::Key) add_noise(cache, head, varying, error);
  return error;
}

std::vector<HeadError> errors_of_row(const CacheStatistics& cache, const NumberFormat& format, double scale) {
  std::vector<HeadError> errors;
  std::vector<double> channel_errors;
  for (const CacheSite part : {CacheSite::Latent, CacheSite::Rope}) {
    const SiteStatistics& site = cache.at(part);
    const HeadModel model = model_of(site.heads.at(0).histogram, format, scale);
    append_errors(site.channels, model, site.n_tokens, channel_errors);
    errors.push_back(model.error);
  }
  for (HeadError& error : errors) add_noise(cache, 0, channel_errors, error);
  return errors;
}

}  // namespace

HeadError error_of(const MagnitudeHistogram& histogram, const NumberFormat& format, float scale) {
  return model_of(histogram, format, scale).error;
}

std::vector<HeadError> errors_of(const CacheStatistics& cache, CacheSite site, const NumberFormat& format,
                                 std::span<const float> scales) {
  if (site == CacheSite::Latent) return errors_of_row(cache, format, scales[0]);
  const SiteStatistics& statistics = cache.at(site);
  const auto width = static_cast<size_t>(width_of(cache.layout, site));
  std::vector<HeadError> errors;
  if (scales.size() > statistics.heads.size()) {
    for (size_t head = 0; head < statistics.heads.size(); ++head)
      errors.push_back(error_by_channel(cache, site, head, format, scales.subspan(head * width, width)));
    return errors;
  }
  for (size_t head = 0; head < statistics.heads.size(); ++head) {
    const double scale = scales[scales.size() == 1 ? 0 : head];
    const HeadModel model = model_of(statistics.heads[head].histogram, format, scale);
    HeadError error = model.error;
    if (site == CacheSite::Value)
      for (size_t c = 0; c < width; ++c)
        error.lost = std::max(error.lost, lost_of(statistics.channels[head * width + c], model, format.max * scale));
    if (site == CacheSite::Key && statistics.n_tokens > 0) {
      std::vector<double> channel_errors;
      append_errors(std::span(statistics.channels).subspan(head * width, width), model, statistics.n_tokens,
                    channel_errors);
      add_noise(cache, head, channel_errors, error);
    }
    errors.push_back(error);
  }
  return errors;
}

}  // namespace kvcal
