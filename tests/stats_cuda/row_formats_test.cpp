// Formats with scales of their own, tried on rows of the device: the sums are those of the same rows on the host, and
// the device has no more memory for them than the plan counts.
#include <gtest/gtest.h>

#include <map>

#include "harness/emulated_ops.h"
#include "ops/cpu/cpu_ops.h"
#include "stats/row_format_sampler.h"
#include "unit/stats_fixture.h"

namespace kvcal::stats_test {
namespace {

/// Those of the plan with their sequences, of which attention is sampled where a prompt is alone.
std::vector<Batch> sampled_batches(int64_t chunk) {
  const ObservationPlan plan = small_plan();
  std::map<int64_t, int64_t> tokens;
  for (const Segment& s : plan.segments) tokens[s.sequence] += s.n_tokens;
  std::vector<Batch> batches = batches_of(plan, {chunk});
  for (Batch& batch : batches)
    for (const Segment& s : batch.segments)
      if (s.pass == 1)
        batch.sequences.push_back({s.sequence, {s.row, s.n_tokens, s.first_position}, tokens[s.sequence]});
  return batches;
}

/// Shows what attention reads of a batch, where `op` runs.
void show_attention(RowFormatSampler& sampler, Ops& op, const ModelSpec& spec, const Batch& batch, ThreadPool& pool) {
  const KvLayout& layout = spec.caches[0];
  const DType type = op.activation_dtype();
  const auto there = [&](const Tensor& x) { return op.isa().starts_with("cuda") ? op.upload(x) : x; };
  const Storage keys = layout.is_mla() ? rows_of(spec, 0, batch, mixed_value, type)
                                       : tensor_of(spec, 0, CacheSite::Key, batch, mixed_value, type);
  const Storage values = layout.is_mla() ? Storage() : tensor_of(spec, 0, CacheSite::Value, batch, mixed_value, type);
  const Tensor k = there(keys.tensor());
  const Tensor v = layout.is_mla() ? op.columns(k, 0, layout.latent_dim) : there(values.tensor());
  const AttentionSpec attention;
  const ColumnNorms norms;
  const std::vector<const KvRows*> none(batch.spans.size());
  sampler.add(op, layout, {Tensor(), k, v, none, attention, norms}, batch, pool);
  op.end_batch();
}

CacheStatistics tried(Ops& op, const ModelSpec& spec, int64_t most_rows, int64_t chunk) {
  ThreadPool pool(2);
  RowFormatSampler sampler(most_rows);
  for (const Batch& batch : sampled_batches(chunk)) show_attention(sampler, op, spec, batch, pool);
  sampler.close();
  CacheStatistics cache;
  cache.layout = spec.caches[0];
  sampler.fold_into(cache, pool);
  return cache;
}

TEST(RowFormatsOfADevice, AreThoseOfTheHost) {
  const int64_t n_rows = n_sampled(small_plan().segments);
  for (const Precision precision : {Precision::BF16, Precision::F32})
    for (const ModelSpec& spec : {small_spec(), latent_spec()})
      for (const int64_t chunk : {int64_t{1} << 20, int64_t{128}}) {
        const auto host = make_cpu_ops({precision, 1, true}), device = test::emulated_cuda_ops(precision);
        device->reserve(
            {uint64_t{16} << 20, static_cast<uint64_t>(RowFormatSampler::bytes(spec.caches[0], n_rows, precision))});
        const CacheStatistics expected = tried(*host, spec, n_rows, chunk), on = tried(*device, spec, n_rows, chunk);
        const bool mla = spec.caches[0].is_mla();
        const CacheSite second = mla ? CacheSite::Rope : CacheSite::Value;
        for (const CacheSite site : {mla ? CacheSite::Latent : CacheSite::Key, second}) {
          EXPECT_EQ(on.at(site).row_formats, expected.at(site).row_formats) << name_of(site);
          EXPECT_EQ(energies_of(on.at(site).row_formats, 0).rows, static_cast<uint64_t>(n_rows));
        }
      }
}

}  // namespace
}  // namespace kvcal::stats_test
