#include "solve/damage.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "solve/channel_model.h"
#include "solve/head_change.h"
#include "stats/queries.h"

namespace kvcal {
namespace {

// Up to here the largest stored value is the nearest one or nearly so: 464/448 is where ordinary rounding would go up.
constexpr double kRoundsDown = 17.0 / 16;

// A head that gives less of the output than this may lose its tokens. Heads that give less than this of their part are
// less than this together, however many there are: they hardly count.
constexpr double kHeadThatMatters = 0.05;

bool clips(const HeadStatistics& head, const NumberFormat& format, double scale) {
  return static_cast<double>(magnitude_of(head.absmax)) > kRoundsDown * format.max * scale || head.histogram.over > 0;
}

/// Where an octave of HeadStatistics::token_octaves ends.
double end_of(uint8_t octave) { return std::ldexp(1.0, int{octave} - 126); }

/// Share of tokens whose largest magnitude is in an octave wholly below 2^-7 · scale.
double flushed_tokens(const HeadStatistics& head, const NumberFormat& format, double scale) {
  const double least = format.smallest_normal / 2 * scale;
  uint64_t all = 0, flushed = 0;
  for (const auto& [octave, tokens] : head.token_octaves) {
    all += tokens;
    if (end_of(octave) <= least) flushed += tokens;
  }
  return all == 0 ? 0 : static_cast<double>(flushed) / static_cast<double>(all);
}

// An offset is most of what is rounded where without it the change is more than that many times as large.
constexpr double kOffset = 1.5;

// Of the output's square: bfloat16 keeps no less of what varies than 2^-9 of the whole, with nothing rounded.
constexpr double kLeastVarying = 0x1p-18;

/// Numerators and denominators of PredictedDamage::rel.
struct Change {
  double error = 0, energy = 0;
  PopulationErrors of_populations;

  void add(const Change& other, double weight = 1) {
    error += weight * other.error;
    energy += weight * other.energy;
    of_populations.add(other.of_populations, weight);
  }
  double raw() const { return share(error, energy); }
  /// Of what varies within populations, where offsets are most of them; else 0.
  double varying() const {
    const PopulationErrors& p = of_populations;
    const double around_means = share(p.varying_error, std::max(p.variance, kLeastVarying * p.energy));
    return around_means > kOffset * share(p.error, p.energy) ? around_means : 0.0;
  }
  static double share(double part, double whole) { return whole > 0 ? std::sqrt(part / whole) : 0.0; }
};

double squared_norm(const SiteStatistics& site, size_t channel) {
  const double norm = site.column_norms.empty() ? 1.0 : static_cast<double>(site.column_norms[channel]);
  return norm * norm;
}

Change change_of(const SiteStatistics& site, size_t head, size_t width, const HeadModel& model) {
  Change sum;
  for (size_t c = head * width; c < (head + 1) * width; ++c) {
    const ChannelStatistics& channel = site.channels[c];
    const uint64_t n = site.n_tokens;
    sum.add({mean_squared_error(channel, model, n), mean_square(channel, n), errors_of_populations(channel, model, n)},
            squared_norm(site, c));
  }
  return sum;
}

/// The same where each channel has a scale of its own.
Change change_by_channel(const SiteStatistics& site, size_t head, const NumberFormat& format,
                         std::span<const float> scales) {
  Change sum;
  for (size_t c = 0; c < scales.size(); ++c) {
    const size_t at = head * scales.size() + c;
    const ChannelStatistics& channel = site.channels[at];
    const ChannelRounding rounding = rounding_of(channel, format, scales[c], site.n_tokens);
    sum.add({rounding.squared_error, mean_square(channel, site.n_tokens), rounding.of_populations},
            squared_norm(site, at));
  }
  return sum;
}

bool clips_at(const SiteStatistics& site, size_t head, const NumberFormat& format, std::span<const float> scales) {
  if (scales.size() == 1) return clips(site.heads[head], format, scales[0]);
  for (size_t c = 0; c < scales.size(); ++c)
    if (static_cast<double>(magnitude_of(site.channels[head * scales.size() + c].absmax)) >
        kRoundsDown * format.max * static_cast<double>(scales[c]))
      return true;
  return false;
}

/// What belongs to one head: its scale, or those of its channels.
std::span<const float> scales_of_head(std::span<const float> scales, const SiteStatistics& site, size_t head) {
  if (scales.size() == 1) return scales;
  const size_t n = scales.size() / site.heads.size();
  return scales.subspan(head * n, n);
}

void predict_values(const CacheStatistics& cache, CacheSite values, const NumberFormat& format,
                    std::span<const float> scales, PredictedDamage& damage) {
  const SiteStatistics& site = cache.at(values);
  const auto width = static_cast<size_t>(width_of(cache.layout, values));
  Change all;
  std::vector<double> energies;
  const auto smallest_of = [&](size_t head) {
    return static_cast<double>(std::ranges::min(scales_of_head(scales, site, head)));
  };
  for (size_t head = 0; head < site.heads.size(); ++head) {
    const std::span<const float> own = scales_of_head(scales, site, head);
    const Change change = own.size() > 1
                              ? change_by_channel(site, head, format, own)
                              : change_of(site, head, width, model_of(site.heads[head].histogram, format, own[0]));
    all.add(change);
    energies.push_back(change.energy);
    damage.clips |= clips_at(site, head, format, own);
  }
  damage.rel_raw = all.raw();
  // Weights that do not sum to one, but to another share in each row, make an offset of all values vary as well.
  damage.rel_varying = cache.layout.learned_sinks ? 0 : all.varying();
  damage.rel = std::max(damage.rel_raw, damage.rel_varying);
  for (size_t head = 0; head < site.heads.size(); ++head)
    if (energies[head] > kHeadThatMatters * all.energy)
      damage.flushed_tokens =
          std::max(damage.flushed_tokens, flushed_tokens(site.heads[head], format, smallest_of(head)));
}

/// Var of the key channels that query head `head` meets; E[k²] where a learned sink has part in its softmax: logits
/// move beside the sink's, which stays, by what all keys have in common, too.
std::vector<double> key_spreads(const CacheStatistics& cache, size_t head) {
  const KvLayout& layout = cache.layout;
  std::vector<double> spreads;
  const auto append = [&](const SiteStatistics& keys, size_t first, size_t n) {
    for (size_t c = first; c < first + n; ++c)
      spreads.push_back((layout.learned_sinks ? mean_square : variance)(keys.channels[c], keys.n_tokens));
  };
  if (layout.is_mla()) {
    for (const CacheSite part : {CacheSite::Latent, CacheSite::Rope})
      append(cache.at(part), 0, cache.at(part).channels.size());
    return spreads;
  }
  const auto width = static_cast<size_t>(layout.head_dim_k);
  append(cache.at(CacheSite::Key), head / static_cast<size_t>(layout.n_heads / layout.n_kv_heads) * width, width);
  return spreads;
}

/// The magnitude of the token in the middle as a share of the RMS over tokens, to the octave.
double middle_of_tokens(const HeadStatistics& head) {
  uint64_t all = 0, below = 0;
  double sum = 0;
  for (const auto& [octave, tokens] : head.token_octaves) {
    all += tokens;
    sum += static_cast<double>(tokens) * end_of(octave) * end_of(octave);
  }
  for (const auto& [octave, tokens] : head.token_octaves)
    if (below += tokens; 2 * below >= all && sum > 0) return end_of(octave) / std::sqrt(sum / static_cast<double>(all));
  return 0;
}

/// Where one channel is all of the logits, rounding it makes all of them larger or smaller alike: their order stays.
/// With shares p_c of channels, 1 - Σ p_c² of the noise is not of that kind.
double share_that_reorders(double sum, double squares) {
  return sum > 0 ? std::sqrt(std::max(1 - squares / (sum * sum), 0.0)) : 0.0;
}

void predict_queries(const CacheStatistics& cache, const NumberFormat& format, std::span<const float> scales,
                     PredictedDamage& damage) {
  const SiteStatistics& site = cache.at(CacheSite::Query);
  const auto width = static_cast<size_t>(cache.layout.head_dim_k);
  for (size_t head = 0; head < site.heads.size(); ++head) {
    const double scale = scales[scales.size() == 1 ? 0 : head];
    const HeadModel model = model_of(site.heads[head].histogram, format, scale);
    const std::vector<double> spreads = key_spreads(cache, head);
    double sum = 0, squares = 0;
    for (size_t c = 0; c < width; ++c) {
      const double part = mean_squared_error(site.channels[head * width + c], model, site.n_tokens) * spreads[c];
      sum += part;
      squares += part * part;
    }
    const double noise = cache.layout.softmax_scale * std::sqrt(sum);
    const double reorders = share_that_reorders(sum, squares);
    damage.noise = std::max(damage.noise, noise);
    damage.typical_noise = std::max(damage.typical_noise, noise * reorders * middle_of_tokens(site.heads[head]));
    damage.clips |= clips(site.heads[head], format, scale);
  }
}

}  // namespace

PredictedDamage predict_damage(const CacheStatistics& cache, CacheSite site, const NumberFormat& format,
                               std::span<const float> scales) {
  PredictedDamage damage;
  const SiteStatistics& s = cache.at(site);
  if (site == CacheSite::Query) {
    predict_queries(cache, format, scales, damage);
    return damage;
  }
  if (site == CacheSite::Value || site == CacheSite::Latent) predict_values(cache, site, format, scales, damage);
  if (site == CacheSite::Value) return damage;
  for (const HeadError& error : errors_of(cache, site, format, scales))
    damage.noise = std::max(damage.noise, error.noise);
  for (size_t head = 0; head < s.heads.size(); ++head)
    damage.clips |= clips_at(s, head, format, scales_of_head(scales, s, head));
  if (site == CacheSite::Latent) damage.clips |= clips(cache.at(CacheSite::Rope).heads.at(0), format, scales[0]);
  return damage;
}

std::vector<HeadChange> predict_head_changes(const CacheStatistics& cache, const NumberFormat& format,
                                             std::span<const float> scales) {
  const SiteStatistics& site = cache.at(CacheSite::Value);
  const auto width = static_cast<size_t>(cache.layout.head_dim_v);
  std::vector<Change> changes;
  double energy = 0;
  for (size_t head = 0; head < site.heads.size(); ++head) {
    const double scale = static_cast<double>(scales[scales.size() == 1 ? 0 : head]);
    changes.push_back(change_of(site, head, width, model_of(site.heads[head].histogram, format, scale)));
    energy += changes.back().energy;
  }
  std::vector<HeadChange> heads;
  const auto n = static_cast<double>(changes.size());
  for (const Change& change : changes) heads.push_back({change.raw(), n * change.energy > kHeadThatMatters * energy});
  return heads;
}

}  // namespace kvcal
