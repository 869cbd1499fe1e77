#include "stats/merge.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/token_kind.h"
#include "stats/statistics_checks.h"
#include "stats/statistics_metadata.h"

namespace kvcal {
namespace {

/// New index of each prompt of one run in the union. Ids are sorted on both sides, so the order of indices, and with
/// it the order of places, stays.
using PromptMap = std::vector<size_t>;

PromptMap map_prompts(const std::vector<std::string>& ids, const std::vector<std::string>& all) {
  PromptMap map;
  for (const std::string& id : ids)
    map.push_back(static_cast<size_t>(std::lower_bound(all.begin(), all.end(), id) - all.begin()));
  return map;
}

template <class Info>
std::optional<Info> same_or_none(const std::optional<Info>& a, const std::optional<Info>& b) {
  return a == b ? a : std::nullopt;
}

RunRecord merge_records(const RunRecord& a, const RunRecord& b) {
  RunRecord run;
  run.model = same_or_none(a.model, b.model);
  run.layers_without_kv = same_or_none(a.layers_without_kv, b.layers_without_kv);
  run.calibration = same_or_none(a.calibration, b.calibration);
  run.sanity = same_or_none(a.sanity, b.sanity);
  run.plan_sha256 = a.plan_sha256 == b.plan_sha256 ? a.plan_sha256 : "";
  run.tokenizer_sha256 = a.tokenizer_sha256 == b.tokenizer_sha256 ? a.tokenizer_sha256 : "";
  run.n_passes = std::max(a.n_passes, b.n_passes);
  std::ranges::set_union(a.prompt_ids, b.prompt_ids, std::back_inserter(run.prompt_ids));
  return run;
}

/// Adds sorted lists of keyed entries; add(x, y) puts y into x.
template <class Entry, class Key, class Add>
std::vector<Entry> merge_sorted(const std::vector<Entry>& a, const std::vector<Entry>& b, Key key, Add add) {
  std::vector<Entry> result;
  result.reserve(a.size() + b.size());
  auto x = a.begin(), y = b.begin();
  while (x != a.end() || y != b.end()) {
    const bool from_a = x != a.end() && (y == b.end() || key(*x) <= key(*y));
    const bool from_b = y != b.end() && (x == a.end() || key(*y) <= key(*x));
    result.push_back(from_a ? *x : *y);
    if (from_a && from_b) add(result.back(), *y);
    if (from_a) ++x;
    if (from_b) ++y;
  }
  return result;
}

template <class Code>
using Counts = std::vector<std::pair<Code, uint64_t>>;

template <class Code>
Counts<Code> merge_counts(const Counts<Code>& a, const Counts<Code>& b) {
  return merge_sorted(
      a, b, [](const auto& entry) { return entry.first; }, [](auto& x, const auto& y) { x.second += y.second; });
}

MagnitudeHistogram merge_histograms(const MagnitudeHistogram& a, const MagnitudeHistogram& b) {
  return {merge_counts(a.counts, b.counts),
          a.zeros + b.zeros,
          a.infinities + b.infinities,
          a.nans + b.nans,
          a.under + b.under,
          a.over + b.over};
}

ChannelStatistics merge_channels(const ChannelStatistics& a, const ChannelStatistics& b) {
  const auto add = [](OctaveMoments& x, const OctaveMoments& y) {
    x.count += y.count;
    x.sum_m += y.sum_m;
    x.sum_m2 += y.sum_m2;
    x.signed_sum_m += y.signed_sum_m;
  };
  return {std::max(a.absmax, b.absmax),
          merge_sorted(
              a.octaves, b.octaves, [](const OctaveMoments& o) { return o.octave; }, add)};
}

template <class T>
std::vector<T> merge_maxima(const std::vector<T>& a, const std::vector<T>& b) {
  std::vector<T> result = a.size() >= b.size() ? a : b;
  const std::vector<T>& shorter = a.size() >= b.size() ? b : a;
  for (size_t i = 0; i < shorter.size(); ++i) result[i] = std::max(result[i], shorter[i]);
  return result;
}

/// INT4 was tried on all rows, or there is nothing to say of it.
void keep_common_formats(std::vector<RowFormatSum>& sums) {
  if (std::ranges::all_of(sums, [](const RowFormatSum& s) { return s.int4_error.has_value(); })) return;
  for (RowFormatSum& s : sums) s.int4_error.reset();
}

PromptTags merge_tags(const PromptTags& a, const PromptMap& from_a, const PromptTags& b, const PromptMap& from_b) {
  PromptTags all;
  for (const auto& [tags, map] : {std::pair(&a, &from_a), std::pair(&b, &from_b)})
    for (const auto& [tag, prompts] : *tags)
      for (const uint64_t prompt : prompts) all[tag].push_back((*map)[prompt]);
  for (auto& entry : all) {
    std::sort(entry.second.begin(), entry.second.end());
    entry.second.erase(std::unique(entry.second.begin(), entry.second.end()), entry.second.end());
  }
  return all;
}

/// Where one side did not tell kinds apart, the sum cannot either.
void merge_kinds(const SiteStatistics& x, const SiteStatistics& y, int n_passes, SiteStatistics& site) {
  if (x.n_tokens > 0 && x.kind_tokens.empty()) return;
  if (y.n_tokens > 0 && y.kind_tokens.empty()) return;
  if (x.kind_tokens.empty() && y.kind_tokens.empty()) return;
  site.kind_absmax = merge_maxima(x.kind_absmax, y.kind_absmax);
  site.kind_absmax.resize(static_cast<size_t>(n_passes) * kTokenKinds);
  site.kind_tokens = x.kind_tokens.empty() ? y.kind_tokens : x.kind_tokens;
  for (size_t i = 0; !x.kind_tokens.empty() && i < y.kind_tokens.size(); ++i) site.kind_tokens[i] += y.kind_tokens[i];
}

/// One run with its prompts renumbered.
struct Side {
  const Statistics& statistics;
  PromptMap prompts;

  Provenance renumbered(Provenance where) const {
    if (where.pass > 0) where.prompt = static_cast<int64_t>(prompts[static_cast<size_t>(where.prompt)]);
    return where;
  }
};

HeadStatistics merge_heads(const Side& a, const HeadStatistics& x, const Side& b, const HeadStatistics& y) {
  HeadStatistics head;
  head.histogram = merge_histograms(x.histogram, y.histogram);
  head.token_octaves = merge_counts(x.token_octaves, y.token_octaves);
  head.absmax = std::max(x.absmax, y.absmax);
  const Provenance in_x = a.renumbered(x.where), in_y = b.renumbered(y.where);
  const bool only_x = x.absmax > y.absmax || y.where.pass == 0;  // pass 0: nothing was seen
  const bool only_y = y.absmax > x.absmax || x.where.pass == 0;
  head.where = only_x ? in_x : only_y ? in_y : std::min(in_x, in_y);
  return head;
}

void add_prompts(const Side& from, const SiteStatistics& site, size_t n_prompts, std::vector<uint16_t>& absmax) {
  const size_t n = from.prompts.size();
  for (size_t i = 0; i < site.prompt_absmax.size(); ++i) {
    uint16_t& slot = absmax[i / n * n_prompts + from.prompts[i % n]];
    slot = std::max(slot, site.prompt_absmax[i]);
  }
}

SiteStatistics merge_sites(const Side& a, const SiteStatistics& x, const Side& b, const SiteStatistics& y,
                           const RunRecord& run) {
  SiteStatistics site;
  for (size_t h = 0; h < x.heads.size(); ++h) site.heads.push_back(merge_heads(a, x.heads[h], b, y.heads[h]));
  for (size_t c = 0; c < x.channels.size(); ++c) site.channels.push_back(merge_channels(x.channels[c], y.channels[c]));
  site.pair_norm = merge_maxima(x.pair_norm, y.pair_norm);
  site.position_absmax = merge_maxima(x.position_absmax, y.position_absmax);
  if (!x.prompt_absmax.empty() || !y.prompt_absmax.empty()) {
    site.prompt_absmax.resize(static_cast<size_t>(run.n_passes) * run.prompt_ids.size());
    add_prompts(a, x, run.prompt_ids.size(), site.prompt_absmax);
    add_prompts(b, y, run.prompt_ids.size(), site.prompt_absmax);
  }
  merge_kinds(x, y, run.n_passes, site);
  site.n_tokens = x.n_tokens + y.n_tokens;
  site.sampled = merge_sorted(
      x.sampled, y.sampled, [](const SampledSum& sum) { return sum.key(); },
      [](SampledSum& sum, const SampledSum& other) { sum.add(other); });
  site.row_formats = merge_sorted(
      x.row_formats, y.row_formats, [](const RowFormatSum& sum) { return sum.key(); },
      [](RowFormatSum& to, const RowFormatSum& from) { add(to, from); });
  keep_common_formats(site.row_formats);
  site.column_norms = merge_maxima(x.column_norms, y.column_norms);
  return site;
}

void check_same_shape(const CacheStatistics& a, const CacheStatistics& b) {
  const std::string first = layout_to_json(a.layout).dump(), second = layout_to_json(b.layout).dump();
  if (first != second) fail("cannot merge statistics of different caches: " + first + " and " + second);
  for (const CacheSite site : sites_of(a.layout)) {
    const SiteStatistics &x = a.at(site), &y = b.at(site);
    if (x.heads.size() != y.heads.size() || x.channels.size() != y.channels.size())
      fail("cannot merge statistics of cache " + std::to_string(a.layout.cache) + ": its " +
           std::string(name_of(site)) + " has tables of different shape");
    const uint64_t heads = std::max<uint64_t>(x.heads.size(), 1), width = x.channels.size() / heads;
    if (x.n_tokens > kMaxObservationsPerHead || y.n_tokens > kMaxObservationsPerHead ||
        (x.n_tokens + y.n_tokens) * std::max<uint64_t>(width, 1) > kMaxObservationsPerHead)
      fail("cannot merge statistics of more than 2^46 values per head");
  }
}

/// Where one side did not count states, the sum cannot say what they are.
std::vector<StateStatistics> merge_states(const Side& a, const Side& b, const RunRecord& run) {
  const std::vector<StateStatistics>&x = a.statistics.states, &y = b.statistics.states;
  std::vector<StateStatistics> states;
  if (x.empty() || y.empty()) return states;
  if (!std::ranges::equal(x, y, {}, &StateStatistics::layout, &StateStatistics::layout))
    fail("cannot merge statistics of different recurrent states");
  for (size_t i = 0; i < x.size(); ++i) {
    const auto size = static_cast<uint64_t>(x[i].layout.head_size());
    if (x[i].counts.n_tokens + y[i].counts.n_tokens > kMaxObservationsPerHead / size)
      fail("cannot merge statistics of more than 2^46 values per head");
    states.push_back({x[i].layout, merge_sites(a, x[i].counts, b, y[i].counts, run)});
  }
  return states;
}

}  // namespace

Statistics merge(const Statistics& a, const Statistics& b) {
  if (a.caches.size() != b.caches.size())
    fail("cannot merge statistics of " + std::to_string(a.caches.size()) + " and " + std::to_string(b.caches.size()) +
         " caches");
  Statistics result;
  result.run = merge_records(a.run, b.run);
  const Side first{a, map_prompts(a.run.prompt_ids, result.run.prompt_ids)};
  const Side second{b, map_prompts(b.run.prompt_ids, result.run.prompt_ids)};
  result.run.tags = merge_tags(a.run.tags, first.prompts, b.run.tags, second.prompts);
  for (size_t c = 0; c < a.caches.size(); ++c) {
    check_same_shape(a.caches[c], b.caches[c]);
    CacheStatistics cache;
    cache.layout = a.caches[c].layout;
    for (const CacheSite site : sites_of(cache.layout))
      cache.at(site) = merge_sites(first, a.caches[c].at(site), second, b.caches[c].at(site), result.run);
    result.caches.push_back(std::move(cache));
  }
  result.states = merge_states(first, second, result.run);
  return result;
}

Statistics merge(std::span<const Statistics> runs) {
  if (runs.empty()) fail("there are no statistics to merge");
  Statistics result = runs[0];
  for (const Statistics& run : runs.subspan(1)) result = merge(result, run);
  return result;
}

}  // namespace kvcal
