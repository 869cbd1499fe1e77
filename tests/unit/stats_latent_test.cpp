// Statistics of an MLA cache: rows [latent | rope part], whose parts are counted each as a site of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>

#include "checkpoint/safetensors.h"
#include "stats/merge.h"
#include "stats/queries.h"
#include "stats/statistics_file.h"
#include "tensor/dtype.h"
#include "unit/stats_fixture.h"

namespace kvcal::stats_test {
namespace {

/// An ordinary cache that is shown the rope part as its keys and the latent part as its values.
ModelSpec twin_spec() {
  ModelSpec spec = latent_spec();
  KvLayout& l = spec.caches[0];
  l.kind = "gqa";
  l.head_dim_k = 8;
  l.latent_dim = 0;
  return spec;
}

float twin_value(const Spot& spot) {
  Spot part = spot;
  part.site = spot.site == CacheSite::Key ? CacheSite::Rope : CacheSite::Latent;
  return mixed_value(part);
}

const Statistics& sample() {
  static const Statistics statistics = observe_run(latent_spec(), small_plan(), mixed_value);
  return statistics;
}

TEST(LatentStatistics, PartsAreCountedAsSitesOfTheirOwn) {
  const TemporaryPath path;
  std::filesystem::path twin_path = path;
  twin_path += ".twin";
  write_statistics(path, sample(), Existing::Refuse);
  write_statistics(twin_path, observe_run(twin_spec(), small_plan(), twin_value), Existing::Replace);
  const SafetensorsFile file(path), twin(twin_path);
  size_t compared = 0;
  for (const auto& [part, site] : {std::pair("c0.latent.", "c0.value."), {"c0.rope.", "c0.key."}})
    for (const TensorInfo& expected : twin.tensors()) {
      // What is sampled is of attention, whose parts these are not; INT4 has no rows of MLA.
      if (!expected.name.starts_with(site) || expected.name.ends_with(".sampled") ||
          expected.name.ends_with(".row_formats_int4"))
        continue;
      const std::string name = part + expected.name.substr(std::strlen(site));
      const TensorInfo* actual = file.find(name);
      ASSERT_NE(actual, nullptr) << name;
      EXPECT_EQ(str(*actual), str(expected)) << name;
      const Tensor a = file.tensor(*actual), b = twin.tensor(expected);
      EXPECT_TRUE(a.bytes() == b.bytes() && std::memcmp(a.data, b.data, a.bytes()) == 0) << name;
      ++compared;
    }
  std::filesystem::remove(twin_path);
  EXPECT_GT(compared, 40U);
  EXPECT_EQ(file.find("c0.key.absmax"), nullptr);
  EXPECT_EQ(str(*file.find("c0.rope.pair_norm")), "F64 [1, 4]");
  EXPECT_EQ(file.find("c0.latent.pair_norm"), nullptr);
}

TEST(LatentStatistics, BytesDoNotDependOnHowTheWorkIsDivided) {
  const std::string expected = file_bytes(sample());
  for (const RunOptions& options :
       {RunOptions{.chunk = 7, .threads = 2}, {.chunk = 64, .reversed = true}, {.chunk = 64, .dtype = DType::F32}})
    EXPECT_TRUE(file_bytes(observe_run(latent_spec(), small_plan(), mixed_value, options)) == expected);
}

TEST(LatentStatistics, FileRoundTripKeepsEveryByte) {
  const TemporaryPath path;
  write_statistics(path, sample(), Existing::Refuse);
  const Statistics read = read_statistics(path);
  EXPECT_TRUE(file_bytes(read) == file_bytes(sample()));
  EXPECT_TRUE(read.caches[0].layout.is_mla());
  EXPECT_EQ(read.caches[0].layout.latent_dim, 16);
}

TEST(LatentStatistics, MergedPartsAreTheWhole) {
  const auto part = [](const std::vector<int64_t>& sequences) {
    const ObservationPlan plan = part_of(small_plan(), sequences);
    return observe_run(latent_spec(), plan, mixed_value);
  };
  EXPECT_TRUE(file_bytes(merge(part({0, 3}), part({1, 2, 4}))) == file_bytes(sample()));
}

TEST(LatentStatistics, TheRowIsBothParts) {
  const CacheStatistics& cache = sample().caches[0];
  const SiteStatistics row = latent_row(cache);
  std::vector<double> all;
  double largest = 0;
  for (const CacheSite part : {CacheSite::Latent, CacheSite::Rope})
    for (const Segment& s : small_plan().segments)
      for (int64_t t = 0; t < s.n_tokens; ++t)
        for (int64_t c = 0; c < width_of(cache.layout, part); ++c) {
          all.push_back(std::fabs(round_to_bf16(mixed_value({0, part, s.sequence, s.first_position + t, 0, c}))));
          largest = std::max(largest, all.back());
        }
  std::ranges::sort(all);
  const HeadStatistics whole = pooled(row);
  EXPECT_EQ(whole.histogram.observations(), all.size());
  EXPECT_EQ(all.size(), 750U * 24U);
  EXPECT_EQ(magnitude_of(whole.absmax), largest);
  EXPECT_EQ(absmax_of(row), largest);
  for (const double q : {0.1, 0.5, 0.9, 0.999})
    EXPECT_EQ(quantile(row, q), all[static_cast<size_t>(std::ceil(q * static_cast<double>(all.size()))) - 1]) << q;
  EXPECT_EQ(row.channels.size(), 24U);
  EXPECT_EQ(row.n_tokens, 750U);
  EXPECT_EQ(magnitude_of(*std::ranges::max_element(row.position_absmax)), largest);
  EXPECT_EQ(magnitude_of(*std::ranges::max_element(row.prompt_absmax)), largest);
}

TEST(LatentStatistics, PlacesAreChannelsOfTheRow) {
  const auto peak = [](CacheSite part) {
    const Statistics s = observe_run(latent_spec(), small_plan(), [part](const Spot& spot) {
      return spot.site == part && spot.channel == 3 && spot.sequence == 1 ? -8.0f : 1.0f;
    });
    return pooled(latent_row(s.caches[0])).where;
  };
  EXPECT_EQ(peak(CacheSite::Latent), (Provenance{1, 1, 0, 0, 0, 3}));
  EXPECT_EQ(peak(CacheSite::Rope), (Provenance{1, 1, 0, 0, 0, 19}));
}

TEST(LatentStatistics, SitesOfTheOtherKindAreRefused) {
  const ObservationPlan plan = small_plan();
  const Batch batch = batches_of(plan, {})[0];
  ThreadPool pool(1);
  Observer mla(latent_spec(), plan, pool), gqa(small_spec(), plan, pool);
  const Storage rows = rows_of(latent_spec(), 0, batch, mixed_value, DType::BF16);
  EXPECT_EQ(message_of([&] { mla.key(0, rows.tensor(), batch); }),
            "observing layer 2, key: a cache of kind 'mla' has none");
  EXPECT_EQ(message_of([&] { gqa.latent(0, rows.tensor(), batch); }),
            "observing layer 1, latent: a cache of kind 'gqa' has none");
  const Storage narrow({batch.n_tokens(), 1, 16}, DType::BF16);  // the latent part without the other
  EXPECT_NE(message_of([&] { mla.latent(0, narrow.tensor(), batch); }).find("1, 24]"), std::string::npos);
}

TEST(LatentStatistics, MissedRowsAreAnError) {
  const ObservationPlan plan = small_plan();
  ThreadPool pool(1);
  Observer observer(latent_spec(), plan, pool);
  for (const Batch& batch : batches_of(plan, {})) {
    const Storage q = tensor_of(latent_spec(), 0, CacheSite::Query, batch, mixed_value, DType::BF16);
    observer.query(0, q.tensor(), batch);
  }
  EXPECT_NE(message_of([&] { observer.layer_done(2); }).find("layer 2, latent: saw 0 tokens, expected 750"),
            std::string::npos);
}

TEST(LatentStatistics, FilesWhosePartsDoNotFitAreRefused) {
  const auto message = [](const std::string& from, const std::string& to) {
    const TemporaryPath path;
    std::string bytes = file_bytes(sample());
    const size_t at = bytes.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    bytes.replace(at, from.size(), to);
    std::ofstream(static_cast<const std::filesystem::path&>(path), std::ios::binary) << sealed_again(std::move(bytes));
    return without_path(message_of([&] { read_statistics(path); }), path);
  };
  const std::string member = R"(\"latent_dim\":16)";
  EXPECT_NE(message(member, R"(\"latent_dim\":24)").find("expected one head whose values are the latent part"),
            std::string::npos);
  EXPECT_NE(message(member, R"(\"latent_dim\":0 )").find("'latent_dim' is 0"), std::string::npos);
  EXPECT_NE(message(R"(\"kind\":\"mla\")", R"(\"kind\":\"mlb\")").find("'mlb', expected 'gqa' or 'mla'"),
            std::string::npos);
  EXPECT_NE(message(R"(\"rotary_dim\":8)", R"(\"rotary_dim\":9)").find("rope part"), std::string::npos);
}

}  // namespace
}  // namespace kvcal::stats_test
