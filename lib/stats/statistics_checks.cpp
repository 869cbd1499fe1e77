#include "stats/statistics_checks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "base/position_bucket.h"
#include "base/token_kind.h"
#include "stats/statistics_layout.h"
#include "tensor/dtype.h"

namespace kvcal {
namespace {

constexpr uint16_t kLargestFinite = 0x7F7F;
constexpr int kMostOctaves = 255, kMaxBuckets = 64;

/// Sums of one octave: of a head's histogram, or of its channels.
struct OctaveSums {
  uint64_t count = 0, sum_m = 0, sum_m2 = 0;
};
using OctaveTable = std::array<OctaveSums, kMostOctaves>;

std::string text(uint64_t n) { return std::to_string(n); }

void check_code(uint16_t code, const char* what) {
  if (code > kLargestFinite) fail(std::string(what) + " has the code " + text(code) + ", which is not finite");
}

void check_size(size_t actual, int64_t expected, const char* what) {
  if (actual != static_cast<size_t>(expected))
    fail(text(actual) + " " + what + ", expected " + std::to_string(expected));
}

class SiteCheck {
 public:
  SiteCheck(const CacheStatistics& cache, CacheSite kind, const RunRecord& run)
      : layout_(cache.layout), kind_(kind), site_(cache.at(kind)), run_(run), width_(width_of(layout_, kind)) {}

  void check() {
    check_shape();
    for (size_t h = 0; h < site_.heads.size(); ++h) while_doing("head " + std::to_string(h), [&] { check_head(h); });
    check_maxima();
    check_sampled();
    check_row_formats();
    check_kinds();
  }

 private:
  bool is_query() const { return kind_ == CacheSite::Query; }
  void check_shape() const;
  void check_head(size_t head);
  OctaveTable check_histogram(const HeadStatistics& head) const;
  void check_absmax(const HeadStatistics& head) const;
  void check_place(const HeadStatistics& head, size_t index) const;
  void check_token_octaves(const HeadStatistics& head) const;
  void check_channel(const ChannelStatistics& channel, bool all_finite, OctaveTable& sums) const;
  void check_moments(const OctaveMoments& o) const;
  void check_pairs(size_t head) const;
  void check_maxima() const;
  void check_sampled() const;
  void check_row_formats() const;
  void check_kinds() const;

  const KvLayout& layout_;
  CacheSite kind_;
  const SiteStatistics& site_;
  const RunRecord& run_;
  int64_t width_;
};

void SiteCheck::check_shape() const {
  const int64_t heads = heads_of(layout_, kind_);
  check_size(site_.heads.size(), heads, "heads");
  check_size(site_.channels.size(), heads * width_, "channels");
  check_size(site_.pair_norm.size(), heads * pairs_of(layout_, kind_), "pair norms");
  check_size(site_.prompt_absmax.size(), run_.n_passes * static_cast<int64_t>(run_.prompt_ids.size()),
             "maxima by pass and prompt");
  if (site_.n_tokens > kMaxObservationsPerHead / static_cast<uint64_t>(width_))
    fail(text(site_.n_tokens) + " tokens of " + std::to_string(width_) + " channels, expected at most 2^46 values");
}

void SiteCheck::check_head(size_t index) {
  const HeadStatistics& head = site_.heads[index];
  const MagnitudeHistogram& h = head.histogram;
  const OctaveTable counted = check_histogram(head);
  check_absmax(head);
  check_place(head, index);
  check_token_octaves(head);

  OctaveTable summed{};
  uint16_t largest = 0;
  for (int64_t c = 0; c < width_; ++c) {
    const ChannelStatistics& channel = site_.channels[index * static_cast<size_t>(width_) + static_cast<size_t>(c)];
    while_doing("channel " + std::to_string(c), [&] { check_channel(channel, h.infinities + h.nans == 0, summed); });
    largest = std::max(largest, channel.absmax);
  }
  if (!is_query() && largest != head.absmax)
    fail("the largest channel has the code " + text(largest) + ", expected the head's, " + text(head.absmax));
  // Channels count what a backend's histogram leaves to its under and over counts, so only complete ones compare.
  for (size_t o = 0; o < counted.size() && h.under + h.over == 0; ++o) {
    const OctaveSums &a = counted[o], &b = summed[o];
    if (a.sum_m2 != b.sum_m2 || (!is_query() && (a.count != b.count || a.sum_m != b.sum_m)))
      fail("octave " + text(o) + ": the channels' sums (count " + text(b.count) + ", m " + text(b.sum_m) + ", m2 " +
           text(b.sum_m2) + ") are not the histogram's (" + text(a.count) + ", " + text(a.sum_m) + ", " +
           text(a.sum_m2) + ")");
  }
  check_pairs(index);
}

/// Codes, counts and their total; returns what they sum up to per octave.
OctaveTable SiteCheck::check_histogram(const HeadStatistics& head) const {
  const MagnitudeHistogram& h = head.histogram;
  const uint64_t expected = site_.n_tokens * static_cast<uint64_t>(width_);
  uint64_t left = expected;  // counted down, so that no sum can overflow
  const auto take = [&](uint64_t n) {
    if (n > left) fail("more values are counted than the " + text(expected) + " of all tokens");
    left -= n;
  };
  for (const uint64_t n : {h.zeros, h.infinities, h.nans, h.under, h.over}) take(n);
  OctaveTable sums{};
  sums[0].count = h.zeros;
  uint16_t previous = 0;
  for (const auto& [code, count] : h.counts) {
    check_code(code, "the histogram");
    if (code <= previous)
      fail("histogram code " + text(code) + " follows " + text(previous) + ", expected ascending codes from 1");
    if (count == 0) fail("histogram code " + text(code) + " has no count");
    take(count);
    previous = code;
    OctaveSums& octave = sums[code >> 7];
    const uint64_t m = (code & 127u) + (code >= 128 ? 128u : 0u);
    octave.count += count;
    octave.sum_m += m * count;
    octave.sum_m2 += m * m * count;
  }
  if (left != 0)
    fail(text(expected - left) + " values are counted, expected " + text(expected) + ", " + text(site_.n_tokens) +
         " tokens of " + std::to_string(width_) + " channels");
  return sums;
}

void SiteCheck::check_absmax(const HeadStatistics& head) const {
  check_code(head.absmax, "absmax");
  const MagnitudeHistogram& h = head.histogram;
  const uint16_t counted = h.counts.empty() ? 0 : h.counts.back().first;
  const bool beyond_range = h.over > 0 || (h.counts.empty() && h.under > 0);
  if (beyond_range ? head.absmax < counted : head.absmax != counted)
    fail("absmax has the code " + text(head.absmax) + ", but the largest one counted is " + text(counted));
}

void SiteCheck::check_place(const HeadStatistics& head, size_t index) const {
  const Provenance& w = head.where;
  const MagnitudeHistogram& h = head.histogram;
  if (h.infinities + h.nans == site_.n_tokens * static_cast<uint64_t>(width_)) {
    if (head.absmax != 0 || w != Provenance{}) fail("absmax has a code or a place, but there are no finite values");
    return;
  }
  const auto n_prompts = static_cast<int64_t>(run_.prompt_ids.size());
  if (w.pass < 1 || w.pass > run_.n_passes || w.prompt < 0 || w.prompt >= n_prompts || w.token < 0 || w.position < 0 ||
      w.head != static_cast<int64_t>(index) || w.channel < 0 || w.channel >= width_)
    fail("absmax is placed at pass " + std::to_string(w.pass) + ", prompt " + std::to_string(w.prompt) + ", token " +
         std::to_string(w.token) + ", position " + std::to_string(w.position) + ", head " + std::to_string(w.head) +
         ", channel " + std::to_string(w.channel) + ", which is outside of the run");
  const auto bucket = static_cast<size_t>(position_bucket(w.position));
  if (bucket >= site_.position_absmax.size() || site_.position_absmax[bucket] < head.absmax)
    fail("absmax lies at position " + std::to_string(w.position) + ", but the maxima by position do not reach it");
  if (site_.prompt_absmax[static_cast<size_t>((w.pass - 1) * n_prompts + w.prompt)] < head.absmax)
    fail("absmax lies in prompt " + quoted(run_.prompt_ids[static_cast<size_t>(w.prompt)]) + ", pass " +
         std::to_string(w.pass) + ", but the maxima by prompt do not reach it");
  if (!is_query() &&
      site_.channels[index * static_cast<size_t>(width_) + static_cast<size_t>(w.channel)].absmax != head.absmax)
    fail("absmax lies in channel " + std::to_string(w.channel) + ", whose own maximum is another");
}

void SiteCheck::check_token_octaves(const HeadStatistics& head) const {
  uint64_t left = site_.n_tokens;
  int previous = -1;
  for (const auto& [octave, count] : head.token_octaves) {
    if (octave <= previous || octave >= kMostOctaves || count == 0 || count > left)
      fail("token_octaves has octave " + text(octave) + " with " + text(count) +
           " tokens, expected ascending octaves below 255, counts above 0, no more than the tokens there are");
    left -= count;
    previous = octave;
  }
  if (left != 0)
    fail("token_octaves counts " + text(site_.n_tokens - left) + " tokens, expected " + text(site_.n_tokens));
  if (!head.token_octaves.empty() && previous != head.absmax >> 7)
    fail("token_octaves ends with octave " + std::to_string(previous) + ", expected that of absmax, " +
         text(head.absmax >> 7));
}

/// Bounds that hold for any multiset of `count` significands; afterwards no sum over a head can overflow.
void SiteCheck::check_moments(const OctaveMoments& o) const {
  const auto limit = static_cast<int64_t>(site_.n_tokens);
  const int64_t least = o.octave == 0 ? 0 : 128, most = o.octave == 0 ? 127 : 255;
  bool good = o.octave < kMostOctaves;
  if (is_query()) {
    good =
        good && o.count == 0 && o.sum_m == 0 && o.signed_sum_m == 0 && o.sum_m2 > 0 && o.sum_m2 / limit <= most * most;
  } else {
    good = good && o.count > 0 && o.count <= limit && o.sum_m >= least * o.count && o.sum_m <= most * o.count &&
           o.sum_m2 >= least * o.sum_m && o.sum_m2 <= most * o.sum_m && o.signed_sum_m >= -o.sum_m &&
           o.signed_sum_m <= o.sum_m && (o.sum_m - o.signed_sum_m) % 2 == 0;
  }
  if (!good)
    fail("octave " + text(o.octave) + " has count " + std::to_string(o.count) + ", m " + std::to_string(o.sum_m) +
         ", m2 " + std::to_string(o.sum_m2) + ", signed m " + std::to_string(o.signed_sum_m) + ", which no values of " +
         text(site_.n_tokens) + " tokens have");
}

void SiteCheck::check_channel(const ChannelStatistics& channel, bool all_finite, OctaveTable& sums) const {
  check_code(channel.absmax, "absmax");
  int64_t n = 0;
  int previous = -1;
  if (site_.n_tokens == 0 && !channel.octaves.empty()) fail("has moments, but there are no tokens");
  for (const OctaveMoments& o : channel.octaves) {
    if (o.octave <= previous) fail("octave " + text(o.octave) + " follows " + std::to_string(previous));
    check_moments(o);
    previous = o.octave;
    n += o.count;
    OctaveSums& octave = sums[o.octave];
    octave.count += static_cast<uint64_t>(o.count);
    octave.sum_m += static_cast<uint64_t>(o.sum_m);
    octave.sum_m2 += static_cast<uint64_t>(o.sum_m2);
  }
  if (is_query()) {
    if (channel.absmax != 0) fail("has an absmax, which queries do not keep per channel");
    return;
  }
  const auto expected = static_cast<int64_t>(site_.n_tokens);
  if (all_finite ? n != expected : n > expected)
    fail("counts " + std::to_string(n) + " values, expected " + std::to_string(expected));
  if (!channel.octaves.empty() && previous != channel.absmax >> 7)
    fail("its last octave is " + std::to_string(previous) + ", expected that of its absmax, " +
         text(channel.absmax >> 7));
  if (channel.octaves.empty() && channel.absmax != 0) fail("has an absmax, but no moments");
}

void SiteCheck::check_pairs(size_t head) const {
  const int64_t pairs = pairs_of(layout_, kind_);
  const auto maximum = [&](int64_t channel) {
    const size_t c = head * static_cast<size_t>(width_) + static_cast<size_t>(channel);
    return double{magnitude_of(site_.channels[c].absmax)};
  };
  for (int64_t p = 0; p < pairs; ++p) {
    const double norm = site_.pair_norm[head * static_cast<size_t>(pairs) + static_cast<size_t>(p)];
    const auto [i, j] = pair_channels(layout_, p);
    const double a = maximum(i), b = maximum(j);
    // Rounding is monotonous, so the bounds hold for the rounded numbers too.
    if (!(norm >= std::max(a, b) && norm <= std::sqrt(a * a + b * b)))
      fail("the norm of pair " + std::to_string(p) + " is not between the maxima of its channels and their hypotenuse");
  }
}

void SiteCheck::check_sampled() const {
  constexpr auto kMost = static_cast<uint64_t>(kMostSampled / kSampledUnit);
  constexpr uint64_t kMostTokens = uint64_t{1} << 48;  // of sums that are added they cannot overflow
  const auto exceeds = [](const SampledSum& s) { return s.sum > 0 && (s.sum - 1) / s.worst >= s.tokens; };
  for (const SampledSum& s : site_.sampled)
    if (s.rows == 0 || s.rows > s.tokens || s.tokens > kMostTokens || s.worst > kMost || (s.sum > 0) != (s.worst > 0) ||
        exceeds(s) || s.head >= layout_.n_heads)
      fail("sampled has " + text(s.rows) + " rows of query head " + std::to_string(s.head) + " for " + text(s.tokens) +
           " tokens with the sum " + text(s.sum) + " and the largest " + text(s.worst) + ", which cannot be");
  for (const float norm : site_.column_norms)
    if (!(norm >= 0) || std::isinf(norm)) fail("column_norms has a value that is no length");
}

void SiteCheck::check_row_formats() const {
  constexpr uint64_t kLeastEnergy = uint64_t{1} << 32;  // of a row that is not zero, in its units; at most twice it
  for (const RowFormatSum& s : site_.row_formats) {
    const uint64_t least = s.octave == 0 ? 0 : kLeastEnergy;
    if (s.rows == 0 || s.rows > kMostFormatRows || s.energy < s.rows * least || s.energy > 2 * s.rows * least ||
        s.dynamic_error > s.energy || s.nvfp4_error > s.energy || s.int4_error.value_or(0) > s.energy)
      fail("row_formats has " + text(s.rows) + " rows of head " + std::to_string(s.head) + " with the energy " +
           text(s.energy) + " and the errors " + text(s.dynamic_error) + " and " + text(s.nvfp4_error) +
           (s.int4_error ? " and " + text(*s.int4_error) : "") + ", which cannot be");
  }
}

void SiteCheck::check_maxima() const {
  uint16_t absmax = 0;
  for (const HeadStatistics& head : site_.heads) absmax = std::max(absmax, head.absmax);
  if (site_.position_absmax.size() > kMaxBuckets) fail("more than 64 position buckets");
  for (const auto& [codes, what] :
       {std::pair(&site_.position_absmax, "position_absmax"), std::pair(&site_.prompt_absmax, "prompt_absmax")}) {
    for (const uint16_t code : *codes) check_code(code, what);
    const uint16_t largest = codes->empty() ? 0 : *std::max_element(codes->begin(), codes->end());
    if (largest != absmax)
      fail(std::string("the largest of ") + what + " has the code " + text(largest) + ", expected that of absmax, " +
           text(absmax));
  }
}

void SiteCheck::check_kinds() const {
  const std::vector<uint16_t>& absmax = site_.kind_absmax;
  const std::vector<uint64_t>& tokens = site_.kind_tokens;
  if (absmax.empty() && tokens.empty()) return;
  const auto n_passes = static_cast<size_t>(run_.n_passes), n_prompts = run_.prompt_ids.size();
  check_size(tokens.size(), static_cast<int64_t>(kTokenKinds), "kinds of tokens");
  check_size(absmax.size(), static_cast<int64_t>(n_passes * kTokenKinds), "maxima by pass and kind");
  uint64_t n = 0;
  for (const uint64_t of_kind : tokens) {
    if (of_kind > site_.n_tokens) fail(text(of_kind) + " tokens of a kind, of " + text(site_.n_tokens));
    n += of_kind;
  }
  if (n != site_.n_tokens) fail("the kinds have " + text(n) + " tokens, expected " + text(site_.n_tokens));
  for (size_t pass = 0; pass < n_passes; ++pass) {
    uint16_t by_kind = 0, by_prompt = 0;
    for (size_t kind = 0; kind < kTokenKinds; ++kind) {
      const uint16_t code = absmax[pass * kTokenKinds + kind];
      if (code != 0 && tokens[kind] == 0) fail("kind " + std::to_string(kind) + " has a maximum and no tokens");
      by_kind = std::max(by_kind, code);
    }
    for (size_t i = 0; i < n_prompts; ++i) by_prompt = std::max(by_prompt, site_.prompt_absmax[pass * n_prompts + i]);
    if (by_kind != by_prompt)
      fail("the largest of kind_absmax in pass " + std::to_string(pass + 1) + " has the code " + text(by_kind) +
           ", expected that of prompt_absmax, " + text(by_prompt));
  }
}

void check_run(const RunRecord& run) {
  if (run.n_passes < 0) fail("the number of passes is negative");
  for (size_t i = 0; i < run.prompt_ids.size(); ++i) {
    const std::string& id = run.prompt_ids[i];
    if (i > 0 && run.prompt_ids[i - 1] >= id)
      fail("prompt id " + quoted(id) + " follows " + quoted(run.prompt_ids[i - 1]) + ", expected ascending ids");
    try {
      static_cast<void>(Json(id).dump());  // what artifacts and reports will do with it
    } catch (const Json::exception&) {
      fail("prompt id " + quoted(id) + " is not UTF-8");
    }
  }
  for (const auto& [tag, prompts] : run.tags)
    if (prompts.empty() || prompts.back() >= run.prompt_ids.size() ||
        std::adjacent_find(prompts.begin(), prompts.end(), std::greater_equal<>()) != prompts.end())
      fail("the prompts of tag " + quoted(tag) + " are not ascending indices of prompts");
}

}  // namespace

void check_statistics(const Statistics& statistics) {
  check_run(statistics.run);
  check_states(statistics);
  for (size_t c = 0; c < statistics.caches.size(); ++c) {
    const CacheStatistics& cache = statistics.caches[c];
    uint64_t n_tokens = 0;
    bool first = true;
    for (const CacheSite site : sites_of(cache.layout)) {
      if (!site_exists(cache.layout, site)) continue;
      while_doing("cache " + std::to_string(c) + ", " + std::string(name_of(site)), [&] {
        SiteCheck(cache, site, statistics.run).check();
        // Layers that share the cache bring queries of their own for every token.
        const uint64_t n = cache.at(site).n_tokens;
        const bool whole = site == CacheSite::Query && n_tokens > 0 && n > 0 && n % n_tokens == 0;
        if (!first && n != n_tokens && !whole)
          fail(text(n) + " tokens, but the sites before it have " + text(n_tokens));
      });
      if (first) n_tokens = cache.at(site).n_tokens;
      first = false;
    }
  }
}

}  // namespace kvcal
