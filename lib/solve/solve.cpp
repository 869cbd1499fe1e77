#include "solve/solve.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "solve/policies.h"
#include "solve/pow2.h"
#include "stats/queries.h"

namespace kvcal {
namespace {

// Values outside a backend's counting range that a run may have.
constexpr double kMaxOutside = 1e-6;

// A pair's norm was measured behind one rounding to bf16, and what a server writes at another position is rounded
// again: each adds at most 2^-8 / (1 + 2^-8), together 2^-7 of what was measured.
constexpr double kTwoRoundings = 1 + 0x1p-7;

std::string title(const CacheStatistics& cache, CacheSite site) {
  return "layer " + std::to_string(cache.layout.layer) + " (" + cache.layout.name + "), " + std::string(name_of(site));
}

/// ", largest value in prompt 'x'" where the head has one.
std::string seen_in(const HeadStatistics& head, const RunRecord& run) {
  const auto prompt = static_cast<size_t>(head.where.prompt);
  if (head.absmax == 0 || prompt >= run.prompt_ids.size()) return "";
  return "; its largest value is in prompt " + quoted(run.prompt_ids[prompt]);
}

void check_head(const HeadStatistics& head, const RunRecord& run) {
  const MagnitudeHistogram& h = head.histogram;
  const uint64_t n = h.observations();
  if (n == 0) fail("no observations, so there is nothing to make a scale from");
  if (h.nans + h.infinities > 0)
    fail(std::to_string(h.nans) + " NaN and " + std::to_string(h.infinities) + " infinite of " + std::to_string(n) +
         " values: the checkpoint or its loading is broken" + seen_in(head, run));
  if (static_cast<double>(h.under + h.over) > kMaxOutside * static_cast<double>(n))
    fail(std::to_string(h.under) + " values below and " + std::to_string(h.over) +
         " above the range that was counted, of " + std::to_string(n) + ", expected at most one in a million" +
         seen_in(head, run));
}

void check_site(const CacheStatistics& cache, CacheSite site, const RunRecord& run) {
  const SiteStatistics& s = cache.at(site);
  if (s.n_tokens == 0 || s.heads.empty()) fail(title(cache, site) + ": no observations");
  for (size_t head = 0; head < s.heads.size(); ++head)
    while_doing(title(cache, site) + ", head " + std::to_string(head), [&] { check_head(s.heads[head], run); });
  // One head may be pruned or padded; of a whole site this is how a broken checkpoint looks.
  if (absmax_of(s) == 0)
    fail(title(cache, site) + ": all values of " + std::to_string(run.prompt_ids.size()) +
         " prompts are zero, so there is nothing to make a scale from");
}

float chosen_scale(const MagnitudeHistogram& histogram, double range, const SolveOptions& options,
                   const NumberFormat& format) {
  const double headroom = options.headroom.value_or(format.default_headroom);
  const PolicyInput input = {histogram, format, range, headroom, options.percentile};
  return scale_rounded_up(policy_of(options, format).scale(input));
}

/// The scales in force: one, one per head, or one per channel.
std::span<const float> scales_of(const SolvedSite& site) {
  if (!site.scale_per_channel.empty()) return site.scale_per_channel;
  return site.scale_per_head.empty() ? std::span(&site.scale, 1) : std::span<const float>(site.scale_per_head);
}

/// What a site's values are: its own, or those of the whole row.
class SiteValues {
 public:
  SiteValues(const CacheStatistics& cache, CacheSite site) : site_(cache.at(site)) {
    if (site == CacheSite::Latent) row_ = latent_row(cache);
  }
  const SiteStatistics& operator*() const { return row_ ? *row_ : site_; }

 private:
  const SiteStatistics& site_;
  std::optional<SiteStatistics> row_;
};

/// What the channels of a head are to provide for: their largest magnitudes and, of keys that a server may rotate
/// further, at least the largest norm of their pair.
std::vector<double> channel_ranges(const CacheStatistics& cache, CacheSite site, size_t head, bool rotated) {
  const SiteStatistics& s = cache.at(site);
  const auto width = static_cast<size_t>(width_of(cache.layout, site));
  std::vector<double> ranges;
  for (size_t c = head * width; c < (head + 1) * width; ++c)
    ranges.push_back(static_cast<double>(magnitude_of(s.channels[c].absmax)));
  if (!rotated) return ranges;
  const auto n_pairs = static_cast<size_t>(pairs_of(cache.layout, site));
  for (size_t pair = 0; pair < n_pairs; ++pair) {
    const auto [a, b] = pair_channels(cache.layout, static_cast<int64_t>(pair));
    const double norm = kTwoRoundings * s.pair_norm[head * n_pairs + pair];
    for (const int64_t channel : {a, b}) {
      double& range = ranges[static_cast<size_t>(channel)];
      range = std::max(range, norm);
    }
  }
  return ranges;
}

void solve_channels(const CacheStatistics& cache, CacheSite site, const SolveOptions& options,
                    const NumberFormat& format, SolvedSite& out) {
  const SiteStatistics& s = cache.at(site);
  for (size_t head = 0; head < s.heads.size(); ++head)
    for (const double range : channel_ranges(cache, site, head, out.provides_for_envelope)) {
      const std::string where = title(cache, site) + ", channel " + std::to_string(out.scale_per_channel.size());
      const auto scale = [&] { return chosen_scale(s.heads[head].histogram, range, options, format); };
      out.scale_per_channel.push_back(range == 0 ? 1 : while_doing(where, scale));
    }
}

/// Why the scales are not 1.0, each reason once.
std::vector<Departure> departures_of(std::span<const float> scales, std::span<const double> ranges,
                                     const NumberFormat& format) {
  std::set<Departure> all;
  for (size_t i = 0; i < scales.size(); ++i)
    if (const auto departure = departure_of(scales[i], ranges[i], format)) all.insert(*departure);
  return {all.begin(), all.end()};
}

/// From absmax to the scales.
void solve_scales(const CacheStatistics& cache, CacheSite site, const SiteStatistics& s, const RunRecord& run,
                  const SolveOptions& options, const NumberFormat& format, SolvedSite& out) {
  out.absmax = absmax_of(s);
  if (site == CacheSite::Key || site == CacheSite::Latent) out.envelope = key_envelope(cache);
  out.provides_for_envelope =
      out.envelope && policy_of(options, format).uses_headroom && exceeds_measured_length(run, options);
  const double range = out.provides_for_envelope ? *out.envelope : out.absmax;
  const auto finish = [&](std::vector<float> scales, std::span<const double> ranges) {
    if (!policy_of(options, format).seeks_one) return scales;
    scales = raised_towards_one(cache, site, format, std::move(scales));
    out.departures = departures_of(scales, ranges, format);
    return scales;
  };
  out.scale =
      while_doing(title(cache, site), [&] { return chosen_scale(pooled(s).histogram, range, options, format); });
  out.scale = finish({out.scale}, std::span(&range, 1))[0];
  if (options.granularity == Granularity::Tensor) return;
  if (options.granularity == Granularity::Channel) {
    // No server rounds queries, or stores a latent row, with scales per channel.
    if (site == CacheSite::Key || site == CacheSite::Value) solve_channels(cache, site, options, format, out);
    return;
  }
  if (site == CacheSite::Latent) {  // one head; what looks like two are its parts
    out.scale_per_head = {out.scale};
    return;
  }
  std::vector<double> ranges;
  for (size_t head = 0; head < s.heads.size(); ++head) {
    const double head_range = out.provides_for_envelope ? *key_envelope(cache, static_cast<int64_t>(head))
                                                        : static_cast<double>(magnitude_of(s.heads[head].absmax));
    ranges.push_back(head_range);
    if (s.heads[head].absmax == 0) {
      out.scale_per_head.push_back(1);
      continue;
    }
    out.scale_per_head.push_back(while_doing(title(cache, site) + ", head " + std::to_string(head), [&] {
      return chosen_scale(s.heads[head].histogram, head_range, options, format);
    }));
  }
  out.scale_per_head = finish(std::move(out.scale_per_head), ranges);
}

SolvedSite solve_site(const CacheStatistics& cache, CacheSite site, const RunRecord& run, const SolveOptions& options) {
  const SiteValues values(cache, site);
  const SiteStatistics& s = *values;
  const NumberFormat& format = number_format(options.format);
  constexpr float kOne = 1;
  SolvedSite out;
  solve_scales(cache, site, s, run, options, format, out);
  out.at_scale = errors_of(cache, site, format, scales_of(out));
  out.at_one = errors_of(cache, site, format, std::span(&kOne, 1));
  out.assessment = assess(cache, site, options, scales_of(out));
  for (size_t head = 0; head < s.heads.size() && site != CacheSite::Latent; ++head)
    if (s.heads[head].absmax == 0) out.zero_heads.push_back(static_cast<int>(head));
  const bool has_headroom = policy_of(options).uses_headroom;
  out.growth = growth_of(s, run, options.limits, has_headroom ? std::optional(headroom_of(options)) : std::nullopt);
  return out;
}

JointScale solve_joint(const CacheStatistics& cache, const SolvedCache& solved, const SolveOptions& options) {
  const NumberFormat& format = number_format(options.format);
  JointScale joint;
  joint.scale = std::max(solved.key.scale, solved.value.scale);
  joint.key = errors_of(cache, CacheSite::Key, format, std::span(&joint.scale, 1));
  joint.value = errors_of(cache, CacheSite::Value, format, std::span(&joint.scale, 1));
  joint.key_assessment = assess(cache, CacheSite::Key, options, std::span(&joint.scale, 1));
  joint.value_assessment = assess(cache, CacheSite::Value, options, std::span(&joint.scale, 1));
  const auto lost = [](const Assessment& with_joint, const Assessment& with_own) {
    return with_joint.fp8 == Fitness::Keep16 && with_own.fp8 != Fitness::Keep16;
  };
  joint.loses_key = lost(joint.key_assessment, solved.key.assessment);
  joint.loses_value = lost(joint.value_assessment, solved.value.assessment);
  return joint;
}

}  // namespace

const SolvedSite& SolvedCache::at(CacheSite site) const {
  switch (site) {
    case CacheSite::Key:
      return key;
    case CacheSite::Value:
      return value;
    case CacheSite::Query:
      return query;
    case CacheSite::Latent:
    case CacheSite::Rope:
      break;
  }
  return latent;
}

SolvedCache solve_cache(const CacheStatistics& cache, const RunRecord& run, const SolveOptions& options) {
  check(options);
  for (const CacheSite site : sites_of(cache.layout)) check_site(cache, site, run);
  SolvedCache solved;
  if (cache.layout.is_mla()) {
    solved.latent = solve_site(cache, CacheSite::Latent, run, options);
    solved.query = solve_site(cache, CacheSite::Query, run, options);
    return solved;
  }
  solved.key = solve_site(cache, CacheSite::Key, run, options);
  solved.value = solve_site(cache, CacheSite::Value, run, options);
  solved.query = solve_site(cache, CacheSite::Query, run, options);
  solved.joint = solve_joint(cache, solved, options);
  return solved;
}

std::vector<float> scales_for(const CacheStatistics& cache, CacheSite site, const RunRecord& run,
                              const SolveOptions& options, const NumberFormat& format) {
  check_site(cache, site, run);
  if (site == CacheSite::Latent) check_site(cache, CacheSite::Rope, run);
  SolvedSite out;
  solve_scales(cache, site, *SiteValues(cache, site), run, options, format, out);
  const std::span<const float> scales = scales_of(out);
  return {scales.begin(), scales.end()};
}

std::optional<double> key_envelope(const CacheStatistics& cache, int64_t head) {
  const KvLayout& layout = cache.layout;
  const CacheSite turned = layout.is_mla() ? CacheSite::Rope : CacheSite::Key;
  const SiteStatistics& keys = cache.at(turned);
  const int64_t n_pairs = pairs_of(layout, turned);
  if (n_pairs == 0 || keys.pair_norm.empty()) return std::nullopt;
  const int64_t first = head < 0 ? 0 : head, last = head < 0 ? layout.n_kv_heads : head + 1;
  double envelope = layout.is_mla() ? static_cast<double>(absmax_of(cache.at(CacheSite::Latent))) : 0;
  for (int64_t h = first; h < last; ++h) {
    for (int64_t pair = 0; pair < n_pairs; ++pair)
      envelope = std::max(envelope, kTwoRoundings * keys.pair_norm[static_cast<size_t>(h * n_pairs + pair)]);
    // Channels that do not turn keep the size they were seen with; those that do are below the norm of their pair.
    envelope = std::max(envelope, static_cast<double>(magnitude_of(keys.heads[static_cast<size_t>(h)].absmax)));
  }
  return envelope;
}

namespace {

// A server that allows this many tokens must turn keys as the run did.
void check_longrope(const RunRecord& run, int64_t max_model_len) {
  if (!run.model || !run.model->longrope) return;
  const auto& [original, measured] = *run.model->longrope;
  if ((max_model_len > original) != (measured == "long"))
    fail("--max-model-len " + std::to_string(max_model_len) + " does not fit statistics of the " + measured +
         " list of rotary frequencies, which servers take for contexts " + (measured == "long" ? "above " : "up to ") +
         std::to_string(original) + " tokens; calibrate with it");
}

}  // namespace

int64_t max_model_len_of(const RunRecord& run, const SolveOptions& options) {
  if (options.max_model_len > 0) {
    check_longrope(run, options.max_model_len);
    return options.max_model_len;
  }
  return run.model ? run.model->max_positions : 0;
}

bool exceeds_measured_length(const RunRecord& run, const SolveOptions& options) {
  const int64_t allowed = max_model_len_of(run, options);
  const int64_t seen = run.calibration ? run.calibration->longest : 0;
  // Unknown lengths are taken for the worst: providing for more than needed costs nothing.
  return allowed == 0 || seen == 0 || allowed > seen;
}

}  // namespace kvcal
