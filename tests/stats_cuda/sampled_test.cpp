// Sampled attention of whole models: what a run on the device finds, in any batches, against a run on the CPU.
#include <gtest/gtest.h>

#include "arch/golden.h"
#include "harness/emulated_ops.h"
#include "harness/loaded_model.h"
#include "unit/stats_fixture.h"

namespace kvcal::stats_test {
namespace {

Statistics sampled_run(const std::string& name, std::unique_ptr<Ops> ops, int64_t chunk_tokens,
                       const SampleOptions& sample) {
  const Golden golden(name);
  LoadedModel m(golden.folder, std::move(ops));
  const std::vector<std::string> names = {"a", "b", "c"};
  const std::vector<int32_t> ids = golden.sequences().back();
  std::vector<PromptTokens> prompts;
  std::vector<Sequence> sequences;
  for (const int64_t n : {260, 1, 6}) {
    const auto i = static_cast<int64_t>(prompts.size());
    prompts.push_back({names[prompts.size()], {}, 1});
    for (int64_t t = 0; t < n; ++t) prompts.back().ids.push_back(ids[static_cast<size_t>(t * t + i) % ids.size()]);
    sequences.push_back({i, 1, {{i, 0, n}}, n});
  }
  sequences.push_back({3, 2, {{2, 0, 6}, {0, 0, 260}, {1, 0, 1}}, 267});  // packed: nothing of it is sampled
  ThreadPool pool(1);
  Observer observer(m.model->spec(), {2, names, segments_of(sequences)}, pool, m.ops.get(), sample);
  Runner(*m.model, *m.ops, m.weights, chunk_tokens).run({{&sequences, &observer, Until::LastKv, nullptr}}, prompts);
  return observer.take(small_record());
}

struct SampledCase {
  std::string name, model;
  SampleOptions options;
};

void PrintTo(const SampledCase& c, std::ostream* out) { *out << c.name; }

/// Counted where they are: the same in any batches, and nearly what the processor has at those places.
void expect_states(const std::vector<StateStatistics>& device, const std::vector<StateStatistics>& cut,
                   const std::vector<StateStatistics>& host) {
  ASSERT_EQ(device.size(), host.size());
  for (size_t i = 0; i < host.size(); ++i) {
    const SiteStatistics &on = device[i].counts, &expected = host[i].counts;
    EXPECT_EQ(on.n_tokens, expected.n_tokens);
    EXPECT_EQ(on.position_absmax, cut[i].counts.position_absmax);
    EXPECT_EQ(on.prompt_absmax, cut[i].counts.prompt_absmax);
    for (size_t h = 0; h < expected.heads.size(); ++h) {
      EXPECT_EQ(on.heads[h].histogram.counts, cut[i].counts.heads[h].histogram.counts);
      const float largest = magnitude_of(expected.heads[h].absmax);
      EXPECT_NEAR(magnitude_of(on.heads[h].absmax), largest, 0.01F * largest) << "state " << i << ", head " << h;
    }
    ASSERT_EQ(on.position_absmax.size(), expected.position_absmax.size());
    for (size_t p = 0; p < expected.position_absmax.size(); ++p) {
      const float largest = magnitude_of(expected.position_absmax[p]);
      EXPECT_NEAR(magnitude_of(on.position_absmax[p]), largest, 0.01F * largest) << "state " << i << ", bucket " << p;
    }
  }
}

class SampledModel : public testing::TestWithParam<SampledCase> {};

TEST_P(SampledModel, FindsWhatTheCpuFindsInAnyBatches) {
  const auto on_device = [&](int64_t chunk_tokens) {
    return sampled_run(GetParam().model, test::emulated_cuda_ops(Precision::F32), chunk_tokens, GetParam().options);
  };
  const Statistics device = on_device(1024);
  const Statistics host =
      sampled_run(GetParam().model, make_cpu_ops({Precision::F32, 1, true}), 1024, GetParam().options);
  const Statistics cut = on_device(256);
  ASSERT_EQ(device.caches.size(), host.caches.size());
  size_t n = 0;
  for (size_t c = 0; c < host.caches.size(); ++c)
    for (const CacheSite site : sites_of(host.caches[c].layout)) {
      const SiteStatistics& on = device.caches[c].at(site);
      const SiteStatistics& expected = host.caches[c].at(site);
      EXPECT_EQ(on.column_norms, expected.column_norms);
      const RowFormatEnergies rows = energies_of(on.row_formats, 0), of_host = energies_of(expected.row_formats, 0);
      EXPECT_EQ(rows.rows, of_host.rows);
      EXPECT_NEAR(rows.energy, of_host.energy, 1e-3 * of_host.energy);
      EXPECT_NEAR(rows.nvfp4_error, of_host.nvfp4_error, 0.02 * of_host.nvfp4_error);
      ASSERT_EQ(rows.int4_error.has_value(), of_host.int4_error.has_value());
      const double int4_error = of_host.int4_error.value_or(0);
      EXPECT_NEAR(rows.int4_error.value_or(0), int4_error, 0.02 * int4_error);
      EXPECT_EQ(on.sampled, cut.caches[c].at(site).sampled);
      ASSERT_EQ(on.sampled.size(), expected.sampled.size());
      for (size_t i = 0; i < on.sampled.size(); ++i, ++n) {
        EXPECT_EQ(on.sampled[i].key(), expected.sampled[i].key());
        EXPECT_EQ(on.sampled[i].rows, expected.sampled[i].rows);
        // Divergences carry 1e-6 of a nat.
        const double mean = mean_of(expected.sampled[i]);
        EXPECT_NEAR(mean_of(on.sampled[i]), mean, 1e-3 * mean + 2e-6)
            << "cache " << c << ", figure " << static_cast<int>(on.sampled[i].figure) << ", rung "
            << on.sampled[i].rung;
      }
    }
  EXPECT_GE(n, host.caches.size() * kSampleRungs);
  expect_states(device.states, cut.states, host.states);
}

INSTANTIATE_TEST_SUITE_P(Golden, SampledModel,
                         testing::Values(SampledCase{"deepseek_v3", "deepseek_v3", {}},
                                         SampledCase{"qwen3", "qwen3", {}}, SampledCase{"qwen3_5", "qwen3_5", {}},
                                         SampledCase{"int8_that_clips", "qwen3_5", {SampleFormat::Int8, 3}}),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace kvcal::stats_test
