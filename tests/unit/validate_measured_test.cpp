// Rules about how scales came to be: keys measured before their rotation, heads that cannot be dealt to ranks.
#include <gtest/gtest.h>

#include <cmath>

#include "check/artifact_checks.h"
#include "unit/finding_examples.h"
#include "unit/validate_fixture.h"
#include "validate/validate_folder.h"

namespace kvcal {
namespace {

/// Keys with a constant part in the pair that turns fastest; turned by their position as RoPE does, or not.
Statistics keys(double constant, bool turned, int tokens_per_prompt, double radians_per_token = 1) {
  SyntheticRun run;
  run.tokens_per_prompt = tokens_per_prompt;
  const Signal noise = gaussian(1, 5);
  const int64_t half = run.layout.rotary_dim / 2;
  run.key = [=](const Provenance& w) {
    if (w.channel != 0 && w.channel != half) return noise(w);
    const double angle = turned ? radians_per_token * static_cast<double>(w.position) : 0;
    return static_cast<float>(constant * (w.channel == 0 ? std::cos(angle) : std::sin(angle))) + noise(w);
  };
  run.value = gaussian(1, 6);
  run.query = gaussian(1, 7);
  return synthetic_statistics(run);
}

std::vector<std::string> found(const Statistics& statistics) {
  Report report;
  check_rotation(statistics, report);
  keep_examples(report);
  std::vector<std::string> ids = report.evaluated_rules();
  for (const Finding& f : report.findings) ids.push_back(f.rule + " found in " + f.path);
  return ids;
}

using Words = std::vector<std::string>;

TEST(ValidateMeasured, KeysThatWereNotTurnedKeepAMean) {
  const Words clean = {"K07"}, bad = {"K07", "K07 found in layers.3.self_attn"};
  EXPECT_EQ(found(keys(3, false, 64)), bad);
  EXPECT_EQ(found(keys(3, true, 64)), clean);
  EXPECT_EQ(found(keys(3, true, 64, 0.125)), clean);  // positions divided by 8
  EXPECT_EQ(found(keys(0, false, 64)), clean);
  // The pair's constant part is c / sqrt(c^2 + 2): 0.5 lies at c = 0.8165.
  EXPECT_EQ(found(keys(0.75, false, 200)), clean);
  EXPECT_EQ(found(keys(0.95, false, 200)), bad);
}

TEST(ValidateMeasured, ShortTextsAndUnturnedLayersTellNothing) {
  EXPECT_EQ(found(keys(3, false, 63)), Words{});
  Statistics unturned = keys(3, false, 64);
  unturned.caches[0].layout.pair_bound = PairBound::None;
  EXPECT_EQ(found(unturned), Words{});
}

TEST(ValidateMeasured, ScalesPerHeadAreDealtToRanks) {
  const auto findings = [](Granularity granularity, int64_t n_ranks) {
    Report report;
    check_ranks(sound(granularity).dump(), n_ranks, report);
    keep_examples(report);
    for (const Finding& f : report.findings) EXPECT_EQ(f.rule, "S18");
    return report.findings.size();
  };
  EXPECT_EQ(findings(Granularity::Head, 3), 5u);  // layers; two KV heads each
  EXPECT_EQ(findings(Granularity::Tensor, 3), 0u);
  for (const int64_t n_ranks : {1, 2, 4, 8}) EXPECT_EQ(findings(Granularity::Head, n_ranks), 0u) << n_ranks;
}

}  // namespace
}  // namespace kvcal
