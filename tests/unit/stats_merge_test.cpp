#include <gtest/gtest.h>

#include "stats/merge.h"
#include "stats/queries.h"
#include "unit/stats_fixture.h"

namespace kvcal::stats_test {
namespace {

Statistics part(const std::vector<int64_t>& sequences, const Values& values = mixed_value) {
  return observe_run(small_spec(), part_of(small_plan(), sequences), values);
}

TEST(Merge, EqualsOneRunInAnyOrderAndGrouping) {
  const std::string whole = file_bytes(observe_run(small_spec(), small_plan(), mixed_value));
  const Statistics a = part({0, 3}), b = part({1}), c = part({2, 4});
  EXPECT_TRUE(file_bytes(merge(merge(a, b), c)) == whole);
  EXPECT_TRUE(file_bytes(merge(a, merge(b, c))) == whole);
  EXPECT_TRUE(file_bytes(merge(merge(c, a), b)) == whole);
  const std::vector<Statistics> all = {b, c, a};
  EXPECT_TRUE(file_bytes(merge(all)) == whole);
  EXPECT_FALSE(file_bytes(merge(a, b)) == whole);
}

TEST(Merge, TiesGoToTheSmallestPlaceWhicheverSideItIsOn) {
  const Values ones = [](const Spot&) { return 1.0f; };
  const std::string whole = file_bytes(observe_run(small_spec(), small_plan(), ones));
  const Statistics early = part({0, 1, 2}, ones), late = part({3, 4}, ones);
  EXPECT_TRUE(file_bytes(merge(early, late)) == whole);
  EXPECT_TRUE(file_bytes(merge(late, early)) == whole);
}

TEST(Merge, WithARunThatSawNothing) {
  const Statistics nothing = part({}), all = observe_run(small_spec(), small_plan(), mixed_value);
  EXPECT_TRUE(file_bytes(merge(nothing, all)) == file_bytes(all));
  EXPECT_TRUE(file_bytes(merge(all, nothing)) == file_bytes(all));
  EXPECT_TRUE(file_bytes(merge(nothing, nothing)) == file_bytes(nothing));
  const Values zeros = [](const Spot&) { return 0.0f; };
  EXPECT_TRUE(file_bytes(merge(part({}, zeros), part({2}, zeros))) == file_bytes(part({2}, zeros)));
  EXPECT_TRUE(file_bytes(merge(part({2}, zeros), part({}, zeros))) == file_bytes(part({2}, zeros)));
}

// Two prompt sets that know nothing of each other: ids interleave, and one is in both.
TEST(Merge, UnitesPromptSets) {
  const Values values = [](const Spot& s) { return mixed_value({s.cache, s.site, 0, s.position, s.head, s.channel}); };
  const auto single = [](int64_t sequence, int64_t prompt, int64_t n) {
    return Segment{sequence, 1, prompt, 0, 0, 0, n};
  };
  const ObservationPlan first{1, {"b", "d"}, {single(0, 0, 11), single(1, 1, 40)}};
  const ObservationPlan second{1, {"a", "d", "e"}, {single(0, 0, 30), single(1, 1, 40), single(2, 2, 9)}};
  const ObservationPlan both{1,
                             {"a", "b", "d", "e"},
                             {single(0, 0, 30), single(1, 1, 11), single(2, 2, 40), single(3, 2, 40), single(4, 3, 9)}};
  const Statistics x = observe_run(small_spec(), first, values), y = observe_run(small_spec(), second, values);
  const std::string expected = file_bytes(observe_run(small_spec(), both, values));
  EXPECT_TRUE(file_bytes(merge(x, y)) == expected);
  EXPECT_TRUE(file_bytes(merge(y, x)) == expected);
}

TEST(Merge, RunsWithDifferentNumbersOfPasses) {
  ObservationPlan one = part_of(small_plan(), {0, 1, 2});
  one.n_passes = 1;
  const Statistics first = observe_run(small_spec(), one, mixed_value), second = part({3, 4});
  const std::string whole = file_bytes(observe_run(small_spec(), small_plan(), mixed_value));
  EXPECT_TRUE(file_bytes(merge(first, second)) == whole);
  EXPECT_TRUE(file_bytes(merge(second, first)) == whole);
}

TEST(Merge, BlocksThatDifferAreDropped) {
  Statistics a = part({0}), b = part({1});
  b.run.calibration->n_prompts = 4;
  b.run.plan_sha256 = "other";
  for (const Statistics& merged : {merge(a, b), merge(b, a)}) {
    EXPECT_EQ(merged.run.model, a.run.model);
    EXPECT_FALSE(merged.run.calibration);
    EXPECT_EQ(merged.run.plan_sha256, "");
  }
}

TEST(Merge, RefusesOtherCaches) {
  const Statistics a = part({0});
  Statistics b = a;
  b.caches.pop_back();
  EXPECT_EQ(message_of([&] { merge(a, b); }), "cannot merge statistics of 2 and 1 caches");
  b = a;
  b.caches[1].layout.window = 128;
  EXPECT_EQ(message_of([&] { merge(a, b); }).find("cannot merge statistics of different caches: {\"cache\":1,"), 0U);
  b = a;
  b.caches[0].at(CacheSite::Key).n_tokens = uint64_t{1} << 45;
  EXPECT_EQ(message_of([&] { merge(a, b); }), "cannot merge statistics of more than 2^46 values per head");
  EXPECT_EQ(message_of([&] { merge(std::span<const Statistics>()); }), "there are no statistics to merge");
}

}  // namespace
}  // namespace kvcal::stats_test
