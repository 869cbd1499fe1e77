// Variants that begin at the layer whose cache they round first, in place of the whole model again.
#include <gtest/gtest.h>

#include "calibrate/opened_model.h"
#include "e2e/runs.h"
#include "evaluate/make_variants.h"
#include "evaluate/rounding_tap.h"
#include "prefill/runner.h"
#include "prefill/sequence_plan.h"

namespace kvcal {
namespace {

/// Keeps the rows that reach the head.
struct KeepRows final : LogitsSink {
  void hidden(Ops& op, const Tensor& x, const Batch&, Head&) override {
    const Storage host(x.shape, x.dtype);
    op.download(x, host.tensor());
    const auto* bytes = host.tensor().as<char>();
    rows.append(bytes, bytes + host.tensor().bytes());
  }
  std::string rows;
};

TEST(Evaluate, AVariantThatBeginsLateIsTheOneThatRanFromTheBeginning) {
  OpenedModel model(source("datasets/demo/stressed"));
  const ModelSpec& spec = model.spec();
  const std::unique_ptr<Ops> op = open_device("cpu", Precision::BF16, 2);
  const SequencePlan plan = plan_sequences(prompts_of({300, 70, 5}, spec.vocab), {.passes = 1, .warmup_passes = 0});
  const Variant last = one_cache(at_one(spec, stored_format("fp8_e4m3")), spec.caches.back());
  RoundingTap early(last, *op, 0), late(last, *op, 0);
  NoTap away;
  KeepRows reference, whole, branch;
  const int layer = spec.caches.back().layer;
  ASSERT_TRUE(Runner::can_branch(spec, layer));
  Runner runner(*model.model, *op, model.weights, 256);
  runner.run({{&plan.measured, &away, Until::Logits, &reference},
              {&plan.measured, &early, Until::Logits, &whole},
              {&plan.measured, &late, Until::Logits, &branch, layer, 0}},
             plan.prompts);
  EXPECT_FALSE(branch.rows.empty());
  EXPECT_TRUE(branch.rows == whole.rows);
  EXPECT_FALSE(branch.rows == reference.rows);
}

TEST(Evaluate, AModelWithSharedCachesForksWhereNoneIsReadAcross) {
  OpenedModel model(source("tests/arch/golden/gemma4"));
  const ModelSpec& spec = model.spec();
  bool crossed = false;
  for (const KvLayout& cache : spec.caches)
    for (int layer = cache.layer + 1; layer <= spec.last_reader(cache.cache); ++layer) {
      crossed = true;
      EXPECT_FALSE(Runner::can_branch(spec, layer)) << layer;
    }
  EXPECT_TRUE(crossed);
  EXPECT_TRUE(Runner::can_branch(spec, spec.caches.front().layer));
}

}  // namespace
}  // namespace kvcal
