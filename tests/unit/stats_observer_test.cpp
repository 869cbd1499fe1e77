// Every statistic against a count made here in the plainest way: one value at a time, in double, without packed sums,
// bit tricks or the observer's order of work.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "stats/observer.h"
#include "stats/statistics_checks.h"
#include "unit/stats_fixture.h"

namespace kvcal::stats_test {
namespace {

/// A value with its place; the order of places is that of the tuple.
struct Seen {
  double x = 0;  // rounded to bf16
  int64_t pass, prompt, token, position, head, channel;
  auto place() const { return std::tuple(pass, prompt, token, position, head, channel); }
};

std::vector<Seen> all_values(const ModelSpec& spec, const ObservationPlan& plan, int cache, CacheSite site,
                             const Values& values) {
  const KvLayout& layout = spec.caches[static_cast<size_t>(cache)];
  std::vector<Seen> seen;
  for (const Segment& s : plan.segments)
    for (int64_t t = 0; t < s.n_tokens; ++t)
      for (int64_t h = 0; h < heads_of(layout, site); ++h)
        for (int64_t c = 0; c < width_of(layout, site); ++c) {
          const float x = values({cache, site, s.sequence, s.first_position + t, h, c});
          seen.push_back({round_to_bf16(x), s.pass, s.prompt, s.prompt_offset + t, s.first_position + t, h, c});
        }
  return seen;
}

/// Octave by comparing with powers of two.
int octave_of(double magnitude) {
  int octave = 0;
  while (octave < 254 && magnitude >= std::ldexp(1.0, octave + 1 - 127)) ++octave;
  return octave;
}

double significand_of(double magnitude) { return magnitude / std::ldexp(1.0, std::max(octave_of(magnitude), 1) - 134); }

class AgainstBruteForce : public testing::TestWithParam<std::tuple<int, CacheSite>> {
 protected:
  static const Statistics& statistics() {
    static const Statistics s = observe_run(small_spec(), small_plan(), mixed_value, {.chunk = 64, .threads = 2});
    return s;
  }
  int cache() const { return std::get<0>(GetParam()); }
  CacheSite site() const { return std::get<1>(GetParam()); }
  const KvLayout& layout() const { return statistics().caches[static_cast<size_t>(cache())].layout; }
  const SiteStatistics& measured() const { return statistics().caches[static_cast<size_t>(cache())].at(site()); }
  std::vector<Seen> seen() const { return all_values(small_spec(), small_plan(), cache(), site(), mixed_value); }
};

TEST_P(AgainstBruteForce, HistogramAndAbsmax) {
  for (size_t h = 0; h < measured().heads.size(); ++h) {
    std::map<double, uint64_t> counts;
    const Seen* largest = nullptr;
    const std::vector<Seen> all = seen();
    for (const Seen& s : all) {
      if (s.head != static_cast<int64_t>(h)) continue;
      ++counts[std::fabs(s.x)];
      if (!largest || std::fabs(s.x) > std::fabs(largest->x) ||
          (std::fabs(s.x) == std::fabs(largest->x) && s.place() < largest->place()))
        largest = &s;
    }
    const HeadStatistics& head = measured().heads[h];
    EXPECT_GT(counts[0.0], 0U);
    EXPECT_EQ(head.histogram.zeros, counts[0.0]);
    counts.erase(0.0);
    std::map<double, uint64_t> found;
    for (const auto& [code, count] : head.histogram.counts) found[double{magnitude_of(code)}] = count;
    EXPECT_EQ(found, counts);
    EXPECT_EQ(found.size(), head.histogram.counts.size());
    EXPECT_EQ(magnitude_of(head.absmax), std::fabs(largest->x));
    const Provenance& w = head.where;
    EXPECT_EQ(std::tuple(w.pass, w.prompt, w.token, w.position, w.head, w.channel), largest->place());
  }
}

TEST_P(AgainstBruteForce, TokenOctaves) {
  std::map<std::tuple<int64_t, int64_t, int64_t, int64_t>, double> tokens;  // head, pass, prompt, token
  for (const Seen& s : seen()) {
    double& absmax = tokens[{s.head, s.pass, s.prompt, s.token}];
    absmax = std::max(absmax, std::fabs(s.x));
  }
  std::map<std::pair<int64_t, int>, uint64_t> expected, found;
  for (const auto& [token, absmax] : tokens) ++expected[{std::get<0>(token), octave_of(absmax)}];
  for (size_t h = 0; h < measured().heads.size(); ++h)
    for (const auto& [octave, count] : measured().heads[h].token_octaves) found[{h, octave}] = count;
  EXPECT_EQ(found, expected);
}

TEST_P(AgainstBruteForce, Channels) {
  const int64_t width = width_of(layout(), site());
  const bool is_query = site() == CacheSite::Query;
  std::map<std::pair<int64_t, int>, std::array<double, 4>> expected, found;  // channel of all heads, octave
  std::map<int64_t, double> absmax;
  for (const Seen& s : seen()) {
    const int64_t channel = s.head * width + s.channel;
    const double m = significand_of(std::fabs(s.x));
    absmax[channel] = std::max(absmax[channel], std::fabs(s.x));
    if (is_query && m == 0) continue;
    auto& sums = expected[{channel, octave_of(std::fabs(s.x))}];
    if (!is_query) {
      sums[0] += 1;
      sums[1] += m;
      sums[3] += s.x < 0 ? -m : m;
    }
    sums[2] += m * m;
  }
  ASSERT_EQ(measured().channels.size(), static_cast<size_t>(heads_of(layout(), site()) * width));
  for (size_t c = 0; c < measured().channels.size(); ++c) {
    const ChannelStatistics& channel = measured().channels[c];
    EXPECT_EQ(magnitude_of(channel.absmax), is_query ? 0.0f : absmax[static_cast<int64_t>(c)]);
    for (const OctaveMoments& o : channel.octaves)
      found[{c, o.octave}] = {static_cast<double>(o.count), static_cast<double>(o.sum_m), static_cast<double>(o.sum_m2),
                              static_cast<double>(o.signed_sum_m)};
  }
  EXPECT_EQ(found, expected);
}

TEST_P(AgainstBruteForce, MaximaByPositionAndPrompt) {
  std::vector<double> by_position(10), by_prompt(6);  // the longest sequence has 300 positions: buckets 0 .. 9
  for (const Seen& s : seen()) {
    size_t bucket = 0;
    while ((int64_t{1} << bucket) <= s.position) ++bucket;
    by_position[bucket] = std::max(by_position[bucket], std::fabs(s.x));
    double& prompt = by_prompt[static_cast<size_t>((s.pass - 1) * 3 + s.prompt)];
    prompt = std::max(prompt, std::fabs(s.x));
  }
  const auto magnitudes = [](const std::vector<uint16_t>& codes) {
    std::vector<double> values;
    for (const uint16_t code : codes) values.push_back(double{magnitude_of(code)});
    return values;
  };
  EXPECT_EQ(magnitudes(measured().position_absmax), by_position);
  EXPECT_EQ(magnitudes(measured().prompt_absmax), by_prompt);
  EXPECT_EQ(measured().n_tokens, 750U);
}

TEST_P(AgainstBruteForce, PairNorms) {
  if (site() != CacheSite::Key) {
    EXPECT_TRUE(measured().pair_norm.empty());
    return;
  }
  std::map<std::tuple<int64_t, int64_t, int64_t, int64_t>, std::map<int64_t, double>> rows;
  for (const Seen& s : seen()) rows[{s.head, s.pass, s.prompt, s.token}][s.channel] = s.x;
  std::vector<double> expected(16);
  for (auto& [row, x] : rows)
    for (int64_t p = 0; p < 8; ++p) {
      const double a = cache() == 0 ? x[p] : x[2 * p], b = cache() == 0 ? x[p + 8] : x[2 * p + 1];
      double& norm = expected[static_cast<size_t>(std::get<0>(row) * 8 + p)];
      norm = std::max(norm, std::sqrt(a * a + b * b));
    }
  EXPECT_EQ(measured().pair_norm, expected);
}

INSTANTIATE_TEST_SUITE_P(Sites, AgainstBruteForce,
                         testing::Combine(testing::Values(0, 1), testing::ValuesIn(sites_of(KvLayout{}))),
                         [](const auto& param) {
                           return std::string(name_of(std::get<1>(param.param))) +
                                  std::to_string(std::get<0>(param.param));
                         });

// ------------------------------------------------------------------ order and division of work

TEST(Observer, BytesDoNotDependOnHowTheWorkIsDivided) {
  const ModelSpec spec = small_spec();
  const ObservationPlan plan = small_plan();
  const std::string expected = file_bytes(observe_run(spec, plan, mixed_value));
  for (const int threads : {1, 2, 3})
    for (const int64_t chunk : {1, 7, 64, 256, 1 << 20})
      for (const bool reversed : {false, true})
        EXPECT_TRUE(file_bytes(observe_run(spec, plan, mixed_value,
                                           {.chunk = chunk, .threads = threads, .reversed = reversed})) == expected)
            << threads << " threads, chunks of " << chunk << (reversed ? ", reversed" : "");
}

TEST(Observer, RoundsF32ActivationsAtTheTap) {
  const std::string expected = file_bytes(observe_run(small_spec(), small_plan(), mixed_value));
  EXPECT_TRUE(file_bytes(observe_run(small_spec(), small_plan(), mixed_value, {.dtype = DType::F32})) == expected);
  EXPECT_TRUE(file_bytes(observe_run(small_spec(), small_plan(), mixed_value,
                                     {.chunk = 64, .threads = 3, .reversed = true, .dtype = DType::F32})) == expected);
}

TEST(Observer, EqualMagnitudesBelongToTheSmallestPlace) {
  for (const bool reversed : {false, true}) {
    const Statistics s =
        observe_run(small_spec(), small_plan(), [](const Spot& spot) { return spot.channel % 2 == 1 ? -2.0f : 1.0f; },
                    {.chunk = 64, .reversed = reversed});
    EXPECT_EQ(s.caches[0].at(CacheSite::Query).heads[3].where, (Provenance{1, 0, 0, 0, 3, 1}));
  }
}

TEST(Observer, OnlyZerosHaveAPlaceToo) {
  const Statistics s = observe_run(small_spec(), small_plan(), [](const Spot&) { return -0.0f; }, {.reversed = true});
  const SiteStatistics& site = s.caches[1].at(CacheSite::Value);
  EXPECT_EQ(site.heads[1].histogram.zeros, 750U * 16U);
  EXPECT_EQ(site.heads[1].where, (Provenance{1, 0, 0, 0, 1, 0}));
  ASSERT_EQ(site.channels[0].octaves.size(), 1U);
  EXPECT_EQ(site.channels[0].octaves[0].count, 750);
}

// More rows than the packed sums of a head can hold, all of the largest significand.
TEST(Observer, LongRunsDoNotOverflow) {
  ModelSpec spec = small_spec();
  spec.caches.resize(1);
  ObservationPlan plan{1, {"a"}, {}};
  constexpr int64_t kSequences = 7, kTokens = 5000;
  for (int64_t i = 0; i < kSequences; ++i) plan.segments.push_back({i, 1, 0, 0, 0, 0, kTokens});
  const Statistics s = observe_run(spec, plan, [](const Spot&) { return -255.0f; }, {.chunk = kTokens});
  for (const CacheSite kind : sites_of(KvLayout{})) {
    const SiteStatistics& site = s.caches[0].at(kind);
    const OctaveMoments& o = site.channels[5].octaves.at(0);
    constexpr int64_t kRows = kSequences * kTokens;
    EXPECT_EQ(o.sum_m2, 255 * 255 * kRows);
    if (kind == CacheSite::Query) continue;
    EXPECT_EQ(o.count, kRows);
    EXPECT_EQ(o.sum_m, 255 * kRows);
    EXPECT_EQ(o.signed_sum_m, -255 * kRows);
  }
}

TEST(Observer, KeepsNoPairsWithoutABound) {
  ModelSpec spec = small_spec();
  spec.caches[0].pair_bound = PairBound::None;
  const Statistics s = observe_run(spec, small_plan(), mixed_value);
  EXPECT_TRUE(s.caches[0].at(CacheSite::Key).pair_norm.empty());
  EXPECT_EQ(s.caches[1].at(CacheSite::Key).pair_norm.size(), 16U);
}

TEST(Observer, BytesNeededCoverTheTables) {
  ModelSpec one = small_spec(), two = small_spec();
  one.caches.resize(1);
  two.caches[1].layer = 1;  // both at once
  const int64_t a = Observer::bytes_needed(one, 1000, 3, 2), b = Observer::bytes_needed(small_spec(), 1000, 3, 2);
  EXPECT_GT(a, 8 * (32768 * 4 + 256 * 2 * 24 * 4));  // the query heads' tables alone
  EXPECT_GT(b, a);
  EXPECT_LT(b, 2 * a);
  EXPECT_EQ(Observer::bytes_needed(two, 1000, 3, 2), 2 * a);
}

}  // namespace
}  // namespace kvcal::stats_test
