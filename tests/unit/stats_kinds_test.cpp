// Ranges by kind of token and by tag of prompts: what is counted, kept, merged and refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/token_kind.h"
#include "stats/merge.h"
#include "stats/statistics_checks.h"
#include "stats/statistics_file.h"
#include "unit/stats_fixture.h"

namespace kvcal::stats_test {
namespace {

const Statistics& sample() {
  static const Statistics s = observe_run(small_spec(), small_plan(), mixed_value, {.chunk = 64, .threads = 2});
  return s;
}

TEST(Kinds, AreCountedTokenByToken) {
  const ObservationPlan plan = small_plan();
  for (const CacheStatistics& cache : sample().caches)
    for (const CacheSite site : sites_of(cache.layout)) {
      std::vector<float> absmax(2 * kTokenKinds);
      std::vector<uint64_t> tokens(kTokenKinds);
      for (const Segment& s : plan.segments)
        for (int64_t t = 0; t < s.n_tokens; ++t) {
          const size_t kind = plan.kinds[static_cast<size_t>(s.prompt)][static_cast<size_t>(s.prompt_offset + t)];
          float& largest = absmax[static_cast<size_t>(s.pass - 1) * kTokenKinds + kind];
          ++tokens[kind];
          for (int64_t h = 0; h < heads_of(cache.layout, site); ++h)
            for (int64_t c = 0; c < width_of(cache.layout, site); ++c)
              largest = std::max(largest, std::fabs(round_to_bf16(mixed_value(
                                              {cache.layout.cache, site, s.sequence, s.first_position + t, h, c}))));
        }
      const SiteStatistics& measured = cache.at(site);
      EXPECT_EQ(measured.kind_tokens, tokens);
      ASSERT_EQ(measured.kind_absmax.size(), absmax.size());
      for (size_t i = 0; i < absmax.size(); ++i) EXPECT_EQ(magnitude_of(measured.kind_absmax[i]), absmax[i]) << i;
    }
}

TEST(Kinds, DoNotDependOnHowTheRunIsCut) {
  const std::string bytes = file_bytes(sample());
  EXPECT_EQ(file_bytes(observe_run(small_spec(), small_plan(), mixed_value, {.chunk = 7, .reversed = true})), bytes);
  const Statistics one = observe_run(small_spec(), part_of(small_plan(), {0, 3}), mixed_value);
  const Statistics other = observe_run(small_spec(), part_of(small_plan(), {1, 2, 4}), mixed_value);
  EXPECT_EQ(file_bytes(merge(one, other)), bytes);
  EXPECT_EQ(file_bytes(merge(other, one)), bytes);
}

TEST(Kinds, AreLeftOutWhereNobodyToldThemApart) {
  ObservationPlan plan = small_plan();
  plan.kinds.clear();
  const Statistics without = observe_run(small_spec(), plan, mixed_value);
  EXPECT_TRUE(without.caches[0].sites[0].kind_tokens.empty());
  EXPECT_TRUE(merge(sample(), without).caches[0].sites[0].kind_absmax.empty());
  const TemporaryPath path;
  write_statistics(path, without, Existing::Refuse);
  EXPECT_TRUE(read_statistics(path).caches[0].sites[0].kind_absmax.empty());
}

TEST(Kinds, MustFitThePlan) {
  ThreadPool pool(1);
  const auto message = [&](const std::function<void(ObservationPlan&)>& change) {
    ObservationPlan plan = small_plan();
    change(plan);
    return message_of([&] { Observer(small_spec(), plan, pool); });
  };
  EXPECT_NE(message([](ObservationPlan& p) { p.kinds.pop_back(); }).find("of 2 prompts"), std::string::npos);
  EXPECT_NE(message([](ObservationPlan& p) { p.kinds[2].pop_back(); }).find("'c' has kinds of 69"), std::string::npos);
  EXPECT_NE(message([](ObservationPlan& p) { p.kinds[1][0] = kTokenKinds; }).find("does not exist"), std::string::npos);
}

TEST(Kinds, ThatContradictOtherTablesAreRefused) {
  const auto message = [](const std::function<void(SiteStatistics&)>& change) {
    Statistics s = sample();
    change(s.caches[0].sites[0]);
    return message_of([&] { check_statistics(s); });
  };
  const size_t text = token_kind(TokenRole::Text);
  EXPECT_EQ(message([](SiteStatistics&) {}), "");
  EXPECT_NE(message([&](SiteStatistics& s) { ++s.kind_tokens[text]; }).find("the kinds have 751"), std::string::npos);
  EXPECT_NE(message([&](SiteStatistics& s) { s.kind_tokens.pop_back(); }), "");
  EXPECT_NE(message([&](SiteStatistics& s) { s.kind_absmax.assign(s.kind_absmax.size(), 1); }), "");
  EXPECT_NE(message([&](SiteStatistics& s) { s.kind_absmax[token_kind(TokenRole::System)] = 1; }).find("no tokens"),
            std::string::npos);
}

TEST(Tags, AreKeptAndMergedByPrompt) {
  Statistics one = sample();
  one.run.tags = {{"code", {0, 2}}, {"tables", {1}}};
  const TemporaryPath path;
  write_statistics(path, one, Existing::Refuse);
  EXPECT_EQ(read_statistics(path).run.tags, one.run.tags);
  Statistics other = sample();
  other.run.prompt_ids = {"a", "aa", "d"};
  other.run.tags = {{"code", {0, 1}}, {"other", {2}}};
  const PromptTags both = {{"code", {0, 1, 3}}, {"other", {4}}, {"tables", {2}}};
  EXPECT_EQ(merge(one, other).run.tags, both);
  EXPECT_EQ(merge(other, one).run.tags, both);
}

TEST(Tags, OfPromptsThatDoNotExistAreRefused) {
  for (const PromptTags& tags : {PromptTags{{"x", {3}}}, PromptTags{{"x", {}}}, PromptTags{{"x", {1, 1}}}}) {
    Statistics s = sample();
    s.run.tags = tags;
    EXPECT_NE(message_of([&] { check_statistics(s); }).find("the prompts of tag 'x'"), std::string::npos);
  }
}

}  // namespace
}  // namespace kvcal::stats_test
