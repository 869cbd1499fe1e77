#include <gtest/gtest.h>

#include "stats/merge.h"
#include "stats/packed_tables.h"
#include "unit/stats_fixture.h"

namespace kvcal::stats_test {
namespace {

Statistics part(const ModelSpec& spec, const std::vector<int64_t>& sequences) {
  return observe_run(spec, part_of(small_plan(), sequences), mixed_value);
}

TEST(PackedTables, RoundTripKeepsEveryByte) {
  for (const ModelSpec& spec : {small_spec(), latent_spec()}) {
    const Statistics a = part(spec, {0, 2, 3}), b = part(spec, {1, 4});
    EXPECT_TRUE(file_bytes(unpacked_tables(packed_tables(b), a)) == file_bytes(b));
    EXPECT_FALSE(file_bytes(a) == file_bytes(b));
    const Statistics whole = observe_run(spec, small_plan(), mixed_value);
    EXPECT_TRUE(file_bytes(merge(a, unpacked_tables(packed_tables(b), a))) == file_bytes(whole));
  }
}

TEST(PackedTables, KindsMayNotBeToldApart) {
  ObservationPlan plan = small_plan();
  plan.kinds.clear();
  const Statistics a = observe_run(small_spec(), plan, mixed_value);
  EXPECT_TRUE(file_bytes(unpacked_tables(packed_tables(a), a)) == file_bytes(a));
}

TEST(PackedTables, BytesOfSomethingElse) {
  const Statistics a = part(small_spec(), {0}), latent = part(latent_spec(), {0});
  const std::string bytes = packed_tables(a);
  for (const size_t n : {size_t{0}, size_t{7}, size_t{100}, bytes.size() - 1})
    EXPECT_NE(message_of([&] { unpacked_tables(std::string_view(bytes).substr(0, n), a); }), "") << n;
  EXPECT_NE(message_of([&] { unpacked_tables(bytes + "x", a); }), "");
  EXPECT_NE(message_of([&] { unpacked_tables(bytes, latent); }), "");
  std::string longer = bytes;
  longer[7] = '\x7F';  // the first count
  EXPECT_NE(message_of([&] { unpacked_tables(longer, a); }), "");
}

}  // namespace
}  // namespace kvcal::stats_test
