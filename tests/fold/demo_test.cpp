// The stressed demo twin, folded: at scale 1.0 it is what it takes calibrated scales to be, and what its natural twin
// is.
#include <cmath>

#include "evaluate/evaluate.h"
#include "evaluate/evaluation_figures.h"
#include "evaluate/make_variants.h"
#include "fold/runs.h"
#include "prompts/prompt_set.h"
#include "solve/solution.h"

namespace kvcal {
namespace {

fs::path demo(const std::string& name) { return fs::path(KVCAL_SOURCE_DIR) / "datasets/demo" / name; }

PromptSet chats() {
  PromptSet set = load_prompts({demo("prompts.jsonl")});
  set.records.resize(12);
  return set;
}

CalibrationResult calibrated(const fs::path& model) {
  CalibrationListener silent;
  return calibrate({.model = model,
                    .prompts = [](bool) { return chats(); },
                    .open_devices = [] { return backend(Precision::BF16); }},
                   {}, silent);
}

/// Mean KL of each variant.
std::vector<double> divergences(const fs::path& model, const std::function<Variant(const ModelSpec&)>& variant) {
  CalibrationListener silent;
  const Evaluation evaluation = evaluate(
      {.model = model, .prompts = [](bool) { return chats(); }, .open_device = [] { return backend(Precision::BF16); }},
      {},
      [&](const ModelSpec& spec) {
        return VariantSet{{at_one(spec, stored_format("fp8_e4m3")), variant(spec)}, {}, std::nullopt};
      },
      silent);
  std::vector<double> means;
  for (const VariantFigures& v : figures_of(evaluation).variants) means.push_back(v.all.kl.mean);
  return means;
}

/// The stressed twin's scale file, as if the fold's powers were its scales: values are stored divided by them.
Artifact with_powers_of(const FoldPlan& plan, Artifact artifact) {
  for (const FoldedSite& site : plan.sites)
    for (auto& layer : artifact.layers)
      if (layer.index == site.layer)
        (site.site == CacheSite::Key ? layer.key : layer.value).scale = std::ldexp(1.0F, -site.exponents.front());
  return artifact;
}

class FoldedTwin : public ::testing::Test {
 protected:
  static FoldResult folded(const ScratchFolder& scratch, const CalibrationResult& stressed, Balance balance) {
    write_statistics(scratch / "run.kvstats", stressed.statistics, Existing::Refuse);
    FoldRequest request{
        demo("stressed"), scratch / "run.kvstats", scratch / "folded", {}, {}, false, true, Weights::Copy, "test"};
    request.options.balance = balance;
    return kvcal::folded(request);
  }
};

TEST_F(FoldedTwin, NeedsNoScalesAndIsFineAsTheNaturalOne) {
  const ScratchFolder scratch;
  const CalibrationResult stressed = calibrated(demo("stressed")), natural = calibrated(demo("natural"));
  const FoldResult result = folded(scratch, stressed, Balance::Head);
  const CalibrationResult after = calibrated(scratch / "folded");
  const auto needed = [](const CalibrationResult& r) {
    int n = 0;
    for (const SolvedCache& cache : solve(r.statistics, {}).caches)
      for (const SolvedSite* site : {&cache.key, &cache.value})
        n += site->assessment.scale == ScaleNeed::Needed ? 1 : 0;
    return n;
  };
  EXPECT_EQ(needed(stressed), 3);
  EXPECT_EQ(needed(natural), 0);
  EXPECT_EQ(needed(after), 0);
  const Solution as_natural = solve(natural.statistics, {}), solved = solve(after.statistics, {});
  for (size_t c = 0; c < solved.caches.size(); ++c)
    for (const auto site : {&SolvedCache::key, &SolvedCache::value}) {
      const Assessment &a = (as_natural.caches[c].*site).assessment, &b = (solved.caches[c].*site).assessment;
      EXPECT_EQ(b.at_one.fitness, Fitness::Fine);
      EXPECT_EQ(b.at_one.fitness, a.at_one.fitness);
      EXPECT_EQ(b.scale, a.scale);
    }
  for (const FoldedSite& site : result.record.plan.sites) EXPECT_FALSE(site.left_to_scales) << site.why;
}

TEST_F(FoldedTwin, DivergesAtOneAsTheOriginalDoesAtThePowersAsScales) {
  const ScratchFolder scratch;
  const CalibrationResult stressed = calibrated(demo("stressed"));
  const FoldResult result = folded(scratch, stressed, Balance::Tensor);
  const auto at_powers = [&](const ModelSpec& spec) {
    return at_scales(spec, with_powers_of(result.record.plan, *stressed.artifact), "powers");
  };
  const auto at_calibrated = [&](const ModelSpec& spec) { return at_scales(spec, *stressed.artifact, "file"); };
  const std::vector<double> original = divergences(demo("stressed"), at_powers);
  const std::vector<double> folded_twin = divergences(scratch / "folded", at_powers);
  EXPECT_GT(original[1], 0.3) << "at 1.0";
  EXPECT_EQ(folded_twin[1], original[2]) << "every stored number is the same";
  EXPECT_LT(folded_twin[1], 3e-4);
  EXPECT_LT(divergences(demo("stressed"), at_calibrated)[2], 3e-4);
}

}  // namespace
}  // namespace kvcal
