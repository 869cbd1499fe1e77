#include <gtest/gtest.h>

#include "stats/head_union.h"
#include "stats/run_union.h"
#include "stats/statistics_file.h"
#include "unit/stats_fixture.h"

namespace kvcal::stats_test {
namespace {

void describe(RunRecord& run) {
  ModelInfo& model = run.model.emplace();
  model.architecture = "SmallModel";
  model.config_sha256 = model.weights_fingerprint = std::string(64, 'c');
  run.layers_without_kv.emplace();
  run.calibration = {"p", "plan", 3, 750, 300, 300, 2, "bf16", "avx2", "kvcal 1", "", {}, {}};
  run.plan_sha256 = "plan";
}

/// What a recorder does not keep.
void leave_out(SiteStatistics& site) {
  site.kind_absmax.clear();
  site.kind_tokens.clear();
  site.sampled.clear();
  site.row_formats.clear();
  site.column_norms.clear();
}

/// What a rank of `size` records of the small model: 4 query and 2 KV heads. A spec with its heads, whose values are
/// those of the same heads in the whole.
Statistics rank(int64_t rank, int64_t size) {
  ModelSpec spec = small_spec();
  const std::vector<KvLayout> whole = spec.caches;
  for (KvLayout& layout : spec.caches) {
    layout.n_heads /= size;
    layout.n_kv_heads = std::max<int64_t>(1, layout.n_kv_heads / size);
  }
  const Values values = [&](Spot spot) {
    const KvLayout& all = whole[static_cast<size_t>(spot.cache)];
    const int64_t n_heads = spot.site == CacheSite::Query ? all.n_heads : all.n_kv_heads;
    spot.head += rank * n_heads / size;
    return mixed_value(spot);
  };
  Statistics part = observe_run(spec, small_plan(), values);
  describe(part.run);
  for (CacheStatistics& cache : part.caches)
    for (const CacheSite site : sites_of(cache.layout)) leave_out(cache.at(site));
  if (size > 1) part.run.heads = {rank, size, {whole[0].n_kv_heads, whole[1].n_kv_heads}};
  return part;
}

std::string message(const std::vector<Statistics>& ranks) {
  const std::vector<std::string> names = {"a", "b", "c", "d"};
  return message_of([&] { united_heads(ranks, std::span(names).first(ranks.size())); });
}

TEST(HeadUnion, OfAllRanksIsTheWholeModel) {
  const std::string whole = file_bytes(rank(0, 1));
  const std::vector<std::string> names = {"a", "b", "c", "d"};
  const std::vector<Statistics> two = {rank(1, 2), rank(0, 2)};
  EXPECT_TRUE(file_bytes(united_heads(two, std::span(names).first(2))) == whole);
  const std::vector<Statistics> four = {rank(2, 4), rank(0, 4), rank(3, 4), rank(1, 4)};
  EXPECT_TRUE(file_bytes(united_heads(four, names)) == whole) << "two ranks share a KV head";
}

TEST(HeadUnion, KeepsItsPlaceInTheFile) {
  const TemporaryPath path;
  write_statistics(path, rank(1, 2), Existing::Refuse);
  const Statistics read = read_statistics(path);
  ASSERT_TRUE(read.run.heads);
  EXPECT_EQ(*read.run.heads, *rank(1, 2).run.heads);
}

TEST(HeadUnion, RefusesWhatIsNoWholeRecording) {
  EXPECT_EQ(message({rank(1, 2)}), "rank 0 of 2 is missing beside 'a'");
  EXPECT_EQ(message({rank(1, 2), rank(1, 2)}), "rank 1 is there twice: 'b'");
  EXPECT_EQ(message({rank(0, 2), rank(1, 4)}),
            "'b' cannot be merged with 'a': the heads are spread over ranks in another way");
  EXPECT_EQ(message({rank(0, 2), rank(0, 1)}),
            "'b' cannot be merged with 'a': one has the heads of a rank, the other is no rank's");
  std::vector<Statistics> ranks = {rank(0, 2), rank(1, 2)};
  ranks[1].run.model->weights_fingerprint[0] = 'd';
  EXPECT_EQ(message(ranks), "'b' cannot be merged with 'a': it is from another model");
  ranks = {rank(0, 2), rank(1, 2)};
  ranks[1].run.prompt_ids.pop_back();
  EXPECT_EQ(
      message(ranks),
      "'b' cannot be merged with 'a': it has another number of intervals; are both of one recording, written at the "
      "same time?");
  ranks = {rank(0, 2), rank(1, 2)};
  ++ranks[1].caches[1].at(CacheSite::Value).n_tokens;
  EXPECT_EQ(message(ranks), "'b' cannot be merged with 'a': layer 3 has seen another number of tokens");
}

TEST(HeadUnion, OfOneRankIsNoModel) {
  RunUnion all;
  EXPECT_EQ(message_of([&] { all.add("a", rank(0, 2)); }),
            "'a' has the heads of one rank: merge the ranks of each recording first");
}

}  // namespace
}  // namespace kvcal::stats_test
