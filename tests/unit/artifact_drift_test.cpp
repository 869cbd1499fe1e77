#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <tuple>

#include "artifact/drift.h"
#include "harness/message_of.h"
#include "unit/solve_synthetic.h"
#include "unit/solved_artifact.h"

namespace kvcal {
namespace {

using Row = std::tuple<int64_t, int64_t, int64_t, int64_t>;  // pass, prompt, token, head
using Raw = std::map<Row, std::vector<double>>;              // its values, as bf16

/// The signal, which also writes down what it gave.
Signal noted(Signal signal, Raw& raw) {
  return [signal, &raw](const Provenance& w) {
    const float x = signal(w);
    raw[{w.pass, w.prompt, w.token, w.head}].push_back(std::fabs(double{round_to_bf16(x)}));
    return x;
  };
}

Signal times(Signal signal, float factor) {
  return [signal, factor](const Provenance& where) { return factor * signal(where); };
}

/// What three out of ten tokens have larger than the others.
Signal with_large_tokens(Signal signal, float factor) {
  return [signal, factor](const Provenance& w) { return signal(w) * (w.token % 10 < 3 ? factor : 1.0f); };
}

const Statistics& calibration() {
  static const Statistics statistics = synthetic_statistics(ordinary_run());
  return statistics;
}

Artifact scales(Granularity granularity = Granularity::Tensor) {
  SolveOptions options = absmax_options();
  options.granularity = granularity;
  return solved_artifact(calibration(), options);
}

std::vector<SiteDrift> drift_of(const Artifact& artifact, const Statistics& live, const DriftLimits& limits = {}) {
  Drift drift(artifact, limits);
  drift.add("live.kvstats", live);
  return drift.sites();
}

struct Counted {
  double clipped = 0, tokens = 0, lost = 0;  // shares, of the worst head
};

/// One value after the other, where drift has only tables.
Counted count(const Raw& raw, int n_heads, const std::vector<double>& ranges, double smallest_normal) {
  Counted worst;
  for (int head = 0; head < n_heads; ++head) {
    const double range = ranges[ranges.size() == 1 ? 0 : static_cast<size_t>(head)];
    double n = 0, n_rows = 0, beyond = 0, rows_beyond = 0, energy = 0, lost = 0;
    for (const auto& [row, values] : raw) {
      if (std::get<3>(row) != head) continue;
      bool any = false;
      for (const double x : values) {
        any = any || x > range;
        beyond += x > range;
        energy += x * x;
        lost += x > range || x < smallest_normal * range / 448 ? x * x : 0;
      }
      n += static_cast<double>(values.size());
      n_rows += 1;
      rows_beyond += any;
    }
    worst.clipped = std::max(worst.clipped, beyond / n);
    worst.tokens = std::max(worst.tokens, rows_beyond / n_rows);
    worst.lost = std::max(worst.lost, lost / energy);
  }
  return worst;
}

TEST(Drift, CountsAsOneValueAfterTheOtherDoes) {
  for (const Granularity granularity : {Granularity::Tensor, Granularity::Head})
    for (const float factor : {0.001f, 0.9f, 1.9f, 2.5f, 3.7f, 11.0f, 300.0f}) {
      const Artifact artifact = scales(granularity);
      Raw raw;
      SyntheticRun run = ordinary_run();
      run.key = noted(with_large_tokens(gaussian(1, 7), factor), raw);
      const SiteDrift key = drift_of(artifact, synthetic_statistics(run))[0];
      std::vector<double> ranges = {448 * double{artifact.layers[0].key.scale}};
      if (granularity == Granularity::Head) {
        ranges.clear();
        for (const float scale : artifact.layers[0].key.scale_per_head) ranges.push_back(448 * double{scale});
      }
      const Counted expected = count(raw, 2, ranges, 0x1p-6);
      EXPECT_DOUBLE_EQ(key.clipped, expected.clipped) << factor;
      EXPECT_LE(key.clipped_tokens, expected.tokens) << factor;
      EXPECT_GE(key.clipped_tokens_most, expected.tokens) << factor;
      EXPECT_EQ(key.clipped_tokens > 0, expected.tokens > 0) << factor;
      EXPECT_EQ(key.clipped_tokens_most > 0, expected.tokens > 0) << factor;
      EXPECT_NEAR(key.lost, expected.lost, 1e-12) << factor;
      if (factor == 300) {
        EXPECT_NEAR(expected.tokens, 0.3, 1e-9);
        EXPECT_NEAR(key.clipped_tokens, 0.3, 1e-9) << "almost no token ends in the octave of the range";
      }
    }
}

TEST(Drift, TellsTokensApartFromValues) {
  // All clipped values in one token, and one in each token: the same share of values, other bounds.
  const Artifact artifact = scales();
  const auto with = [&](bool one_token) {
    SyntheticRun run = ordinary_run();
    run.value = [one_token](const Provenance& w) {
      const bool large = one_token ? w.pass == 1 && w.prompt == 0 && w.token < 40 : w.channel == 0 && w.pass == 1;
      return large ? 1e4f : 0.5f;
    };
    return drift_of(artifact, synthetic_statistics(run))[1];
  };
  const SiteDrift some = with(true), all = with(false);
  EXPECT_DOUBLE_EQ(some.clipped, 40.0 / 640);
  EXPECT_DOUBLE_EQ(some.clipped_tokens, 40.0 / 640);
  EXPECT_DOUBLE_EQ(some.clipped_tokens_most, 40.0 / 640);
  EXPECT_DOUBLE_EQ(all.clipped, 0.5 / 16);
  EXPECT_DOUBLE_EQ(all.clipped_tokens, 0.5);
  EXPECT_DOUBLE_EQ(all.clipped_tokens_most, 0.5);
}

TEST(Drift, IsNoneForWhatWasCalibrated) {
  for (const char* policy : {"absmax", "percentile", "mse"}) {
    SolveOptions options;
    options.policy = policy;
    options.format = policy == std::string("absmax") ? "fp8_e4m3" : "int8";
    options.percentile = 99;
    const Artifact artifact = solved_artifact(calibration(), options);
    for (const SiteDrift& site : drift_of(artifact, calibration())) {
      EXPECT_TRUE(site.broken.empty()) << policy << ' ' << site.site;
      EXPECT_FALSE(site.since);
      EXPECT_EQ(site.growth, 0);
      EXPECT_EQ(site.n_tokens, 640u);
    }
  }
}

TEST(Drift, LeavesWhatTheScaleHasRoomFor) {
  SyntheticRun run = ordinary_run();
  run.value = times(gaussian(1, 2), 1.99f);
  const Artifact artifact = scales();
  const Statistics live = synthetic_statistics(run);
  SiteDrift value = drift_of(artifact, live)[1];
  EXPECT_TRUE(value.broken.empty());
  EXPECT_NEAR(value.growth, 0.99, 0.02);
  EXPECT_NEAR(value.headroom, 2 / 1.99, 0.02);
  value = drift_of(artifact, live, {.growth = 0.5})[1];
  EXPECT_EQ(value.broken, std::vector{DriftLimit::Growth});
  run.value = times(gaussian(1, 2), 2.1f);
  value = drift_of(artifact, synthetic_statistics(run))[1];
  EXPECT_EQ(value.broken, std::vector{DriftLimit::Clipped});
  EXPECT_LT(value.headroom, 1);
  EXPECT_TRUE(drift_of(artifact, synthetic_statistics(run), {.clipped = 0.01, .growth = {}})[1].broken.empty());
}

TEST(Drift, SeesWhatBecomesTooSmall) {
  SyntheticRun run = ordinary_run();
  run.value = times(gaussian(1, 2), 1e-4f);
  const SiteDrift value = drift_of(scales(), synthetic_statistics(run))[1];
  EXPECT_EQ(value.broken, std::vector{DriftLimit::Lost});
  EXPECT_GT(value.lost, 0.99);
  EXPECT_EQ(value.clipped, 0);
  EXPECT_LT(value.growth, -0.999);
}

TEST(Drift, SaysSinceWhen) {
  const Artifact artifact = scales();
  SyntheticRun run = ordinary_run();
  const Statistics before = synthetic_statistics(run);
  run.key = [](const Provenance& w) { return w.prompt >= 5 && w.token == 3 ? 100.0f : 1.0f; };
  const Statistics after = synthetic_statistics(run);
  run.key = [](const Provenance&) { return 100.0f; };
  Drift drift(artifact, {});
  drift.add("monday", before);
  EXPECT_TRUE(drift.within());
  drift.add("tuesday", after);
  EXPECT_FALSE(drift.within());
  drift.add("wednesday", synthetic_statistics(run));
  drift.add("thursday", before);
  const SiteDrift& key = drift.sites()[0];
  EXPECT_EQ(*key.since, (DriftSince{"tuesday", "prompt-105"}));
  EXPECT_EQ(key.clipped, 1) << "of the worst";
  EXPECT_EQ(key.n_tokens, 4u * 640);
  EXPECT_FALSE(drift.within()) << "what has gone by was there";
  EXPECT_FALSE(drift.sites()[1].since);
  EXPECT_EQ(drift_of(scales(Granularity::Head), after)[0].since->prompt, "") << "maxima of prompts are over heads";
}

TEST(Drift, ReadsTheWholeRowOfALatentCache) {
  const SyntheticRun calm = latent_run();
  const Artifact artifact = solved_artifact(synthetic_statistics(calm));
  SyntheticRun run = latent_run();
  Raw raw;
  run.rope = noted(times(gaussian(4, 2), 3), raw);
  const std::vector<SiteDrift> sites = drift_of(artifact, synthetic_statistics(run));
  ASSERT_EQ(sites.size(), 2u);
  EXPECT_EQ(sites[0].site, "latent");
  EXPECT_EQ(sites[0].broken, std::vector{DriftLimit::Clipped});
  const Counted expected = count(raw, 1, {448 * double{artifact.layers[0].latent.scale}}, 0x1p-6);
  EXPECT_DOUBLE_EQ(sites[0].clipped, expected.clipped);
  EXPECT_LE(sites[0].clipped_tokens, expected.tokens);
  EXPECT_GE(sites[0].clipped_tokens_most, expected.tokens);
  EXPECT_NEAR(sites[0].growth, 2, 0.02);
  EXPECT_TRUE(sites[1].broken.empty());
}

TEST(Drift, SeesWhatIsNotFinite) {
  Statistics live = calibration();
  MagnitudeHistogram& histogram = live.caches[0].at(CacheSite::Value).heads[1].histogram;
  histogram.nans = 2;
  histogram.infinities = 1;
  const SiteDrift value = drift_of(scales(), live)[1];
  EXPECT_EQ(value.n_not_finite, 3u);
  EXPECT_EQ(value.broken, std::vector{DriftLimit::NotFinite});
}

TEST(Drift, RefusesScalesOfChannels) {
  Artifact artifact = scales();
  artifact.quantization.granularity = Granularity::Channel;
  EXPECT_EQ(message_of([&] { drift_of(artifact, calibration()); }),
            "the scale file has a scale for each channel, expected one for a tensor or for each head");
}

TEST(Drift, RefusesStatisticsOfAnotherModel) {
  const auto refusal = [](const Artifact& artifact, const Statistics& live) {
    return message_of([&] { drift_of(artifact, live); });
  };
  const std::string other = "'live.kvstats': the statistics are from another model than the scale file: ";
  Statistics live = calibration();
  live.run.model->weights_fingerprint[0] = 'f';
  EXPECT_TRUE(refusal(scales(), live).starts_with(other + "weights_fingerprint is 'fbbb"));
  Artifact copy = scales();
  copy.model.also_valid_for = {live.run.model->weights_fingerprint};
  EXPECT_EQ(refusal(copy, live), "no error");
  live = calibration();
  live.run.model->config_sha256[0] = 'f';
  EXPECT_TRUE(refusal(scales(), live).starts_with(other + "config_sha256"));
  live.run.model.reset();
  EXPECT_EQ(refusal(scales(), live), "'live.kvstats': the statistics do not say which model they are of");
  live = calibration();
  live.caches[0].layout.n_kv_heads = 4;
  EXPECT_EQ(refusal(scales(), live), other + "layer 3: n_kv_heads is 4, expected 2");
  live = calibration();
  live.caches[0].layout.layer = 4;
  EXPECT_EQ(refusal(scales(), live),
            "'live.kvstats': the statistics have no layer 3, of which the scale file has scales");
  live = calibration();
  live.caches.push_back(live.caches[0]);
  live.caches[1].layout.layer = 4;
  EXPECT_EQ(refusal(scales(), live), "'live.kvstats': the scale file has no layer 4, of which there are statistics");
  live = calibration();
  live.caches[0].at(CacheSite::Key).n_tokens = 0;
  EXPECT_EQ(refusal(scales(), live), "'live.kvstats': layer 3 has no tokens: nothing was recorded");
}

}  // namespace
}  // namespace kvcal
