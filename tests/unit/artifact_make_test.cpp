// What make_artifact puts into the file, and what it refuses.
#include <gtest/gtest.h>

#include <bit>

#include "unit/solve_synthetic.h"
#include "unit/solved_artifact.h"

namespace kvcal {
namespace {

SyntheticRun stressed_run() {
  SyntheticRun run = ordinary_run();
  run.key = [plain = run.key](const Provenance& w) mutable { return plain(w) * 128; };
  run.query = [plain = run.query](const Provenance& w) mutable { return plain(w) / 128; };
  run.value = [plain = run.value](const Provenance& w) mutable { return plain(w) / 16384; };
  return run;
}

TEST(MakeArtifact, TellsWhatWasMeasuredAndWhere) {
  const Statistics statistics = synthetic_statistics(ordinary_run());
  const Artifact a = solved_artifact(statistics);
  ASSERT_EQ(a.layers.size(), 1U);
  const ArtifactLayer& layer = a.layers[0];
  EXPECT_EQ(layer.index, 3);
  EXPECT_EQ(layer.name, "model.language_model.layers.3.self_attn");
  EXPECT_EQ(layer.kind, "gqa");
  EXPECT_EQ(layer.query.absmax_per_head.size(), 4U);
  EXPECT_EQ(layer.key.absmax_per_head.size(), 2U);
  EXPECT_EQ(layer.key.observations, 640U);
  EXPECT_EQ(layer.key.absmax, *std::max_element(layer.key.absmax_per_head.begin(), layer.key.absmax_per_head.end()));
  EXPECT_EQ(layer.key.absmax_by_position.size(), 10U);  // positions 0 .. 319
  EXPECT_TRUE(layer.key.envelope && layer.key.error.noise_at_scale);
  EXPECT_FALSE(layer.value.envelope || layer.value.error.noise_at_scale);
  EXPECT_EQ(layer.key.uses_envelope, true);
  EXPECT_FLOAT_EQ(layer.value.scale, layer.value.absmax * 2 / 448);

  // The place of the maximum, found again by hand.
  const SiteStatistics& site = statistics.caches[0].at(CacheSite::Value);
  const HeadStatistics& head = site.heads[site.heads[1].absmax > site.heads[0].absmax ? 1 : 0];
  EXPECT_EQ(layer.value.where.prompt, "prompt-" + std::to_string(100 + head.where.prompt));
  EXPECT_EQ(layer.value.where.token, head.where.token);
  EXPECT_EQ(layer.value.where.channel, head.where.channel);
  EXPECT_EQ(layer.value.where.pass, head.where.pass);
}

// 11 / 448 is nearer to a smaller float: there the largest number would be clipped, and all its energy be lost.
TEST(MakeArtifact, NothingOfAStateIsClippedAtItsRange) {
  for (const float largest : {11.0F, 3.546875F, 5.0625F, 0.0F}) {
    Statistics statistics = synthetic_statistics(ordinary_run());
    StateStatistics state;
    state.layout = {0, "gated_delta_net", 1, 2, 2};
    state.counts.n_tokens = 1;
    state.counts.heads.resize(1);
    MagnitudeHistogram& h = state.counts.heads[0].histogram;
    h.zeros = largest > 0 ? 2 : 4;
    const auto code = static_cast<uint16_t>(std::bit_cast<uint32_t>(largest) >> 16);
    if (largest > 0) h.counts = {{static_cast<uint16_t>(code - 8), 1}, {code, 1}};
    state.counts.heads[0].absmax = largest > 0 ? code : 0;
    state.counts.heads[0].where.pass = 1;
    state.counts.position_absmax = {state.counts.heads[0].absmax};
    state.counts.prompt_absmax.assign(static_cast<size_t>(statistics.run.n_passes) * statistics.run.prompt_ids.size(),
                                      0);
    state.counts.prompt_absmax[0] = state.counts.heads[0].absmax;
    statistics.states.push_back(state);
    const ArtifactState made = solved_artifact(statistics).state_layers.at(0);
    EXPECT_EQ(made.absmax, largest);
    EXPECT_EQ(made.error.lost_at_range, 0.0F) << largest;
    EXPECT_EQ(made.error.lost_at_one, 0.0F) << largest;
    EXPECT_EQ(made.error.clipped_at_one, 0.0F) << largest;
  }
}

TEST(MakeArtifact, TiesGoToTheSmallestPlace) {
  SyntheticRun run = ordinary_run();
  run.value = [](const Provenance& w) {
    return (w.head == 0 && w.prompt == 4) || (w.head == 1 && w.prompt == 2) ? 2.0F : 1.0F;
  };
  const ArtifactWhere where = solved_artifact(synthetic_statistics(run)).layers[0].value.where;
  EXPECT_EQ(where.prompt, "prompt-102");
  EXPECT_EQ(where.head, 1);
}

TEST(MakeArtifact, WritesDownTheOptions) {
  const Statistics statistics = synthetic_statistics(ordinary_run());
  ArtifactQuantization q = solved_artifact(statistics).quantization;
  EXPECT_EQ(q.dtype, "fp8_e4m3");
  EXPECT_EQ(q.max, 448);
  EXPECT_EQ(q.headroom, 2);
  EXPECT_FALSE(q.percentile);
  EXPECT_EQ(q.max_model_len, 4096);
  SolveOptions options;
  options.policy = "percentile";
  options.format = "fp8_e4m3fnuz";
  options.percentile = 99.5;
  options.max_model_len = 100;
  options.limits.rel = 0.25;
  q = solved_artifact(statistics, options).quantization;
  EXPECT_FALSE(q.headroom);
  EXPECT_EQ(q.percentile, 99.5);
  EXPECT_EQ(q.max, 240);
  EXPECT_EQ(q.max_model_len, 100);
  EXPECT_EQ(q.limits.rel, 0.25);
}

TEST(MakeArtifact, CarriesTheRecordOver) {
  Statistics statistics = synthetic_statistics(ordinary_run());
  statistics.run.sanity = {1.5, 6.4, 40};
  statistics.run.calibration->further["later"] = 1;
  const Artifact a = solved_artifact(statistics);
  EXPECT_EQ(a.model, statistics.run.model);
  EXPECT_EQ(a.layers_without_kv, statistics.run.layers_without_kv);
  EXPECT_EQ(a.model_type, "qwen3_5_text");
  EXPECT_EQ(a.calibration.n_tokens, 640);
  EXPECT_EQ(a.calibration, statistics.run.calibration);
  EXPECT_EQ(a.evidence.sanity, statistics.run.sanity);
}

TEST(MakeArtifact, OneSiteThatHasNotConvergedIsEnough) {
  SyntheticRun run = ordinary_run();
  for (Signal* signal : {&run.key, &run.value, &run.query}) *signal = [](const Provenance&) { return 1.0F; };
  EXPECT_EQ(solved_artifact(synthetic_statistics(run)).evidence.converged, true);
  run.query = [](const Provenance& w) { return w.prompt == 7 ? 3.0F : 1.0F; };
  const Artifact a = solved_artifact(synthetic_statistics(run));
  EXPECT_EQ(a.evidence.converged, false);
  EXPECT_TRUE(a.layers[0].key.growth.converged);
  EXPECT_EQ(a.layers[0].query.growth.last_quarter, 2.0F);
}

TEST(MakeArtifact, NamesThePromptAndTheTagThatARangeDependsOn) {
  SyntheticRun run = ordinary_run();
  run.value = [](const Provenance& w) { return w.prompt == 2 ? 8.0F : 1.0F; };
  run.key = [](const Provenance& w) { return w.prompt >= 6 ? 3.0F : 1.0F; };
  Statistics statistics = synthetic_statistics(run);
  statistics.run.tags = {{"code", {6, 7}}, {"prose", {0, 1}}};
  const Artifact a = solved_artifact(statistics);
  const ArtifactGrowth &value = a.layers[0].value.growth, &key = a.layers[0].key.growth;
  EXPECT_EQ(value.depends_on, (ArtifactDependence{"prompt-102", 8.0F}));
  EXPECT_FALSE(value.depends_on_tag);
  EXPECT_FALSE(value.converged);
  EXPECT_FALSE(key.depends_on);
  EXPECT_EQ(key.depends_on_tag, (ArtifactDependence{"code", 3.0F}));
  EXPECT_EQ(a.evidence.converged, false);
  ASSERT_TRUE(a.evidence.beyond);
  EXPECT_EQ(a.evidence.beyond->n_prompts, 8);
  EXPECT_EQ(a.evidence.beyond->headroom, 1);
  EXPECT_EQ(value.coverage->beyond_absmax, 1.0F / 9);
  EXPECT_EQ(a.ranges_by.dump(0, ' ').find("role"), std::string::npos) << "no kinds were told apart";
  const Json& tags = a.ranges_by["tag"];
  ASSERT_EQ(tags.size(), 2U);
  EXPECT_EQ(tags[0]["name"], "code");
  EXPECT_EQ(tags[0]["prompts"], 2);
  EXPECT_EQ(tags[0]["key"]["share"], 1);
  EXPECT_EQ(tags[0]["value"]["share"], 0.125);
  EXPECT_EQ(tags[1]["key"]["layer"], 3);
  EXPECT_EQ(artifact_from_json(to_json(a)), a);
  SolveOptions mse;
  mse.policy = "mse";
  EXPECT_FALSE(solved_artifact(statistics, mse).layers[0].value.growth.coverage->beyond_headroom);
}

TEST(MakeArtifact, OneLayerThatHasNotConvergedIsEnough) {
  SyntheticRun run = ordinary_run();
  for (Signal* signal : {&run.key, &run.value, &run.query}) *signal = [](const Provenance&) { return 1.0F; };
  Statistics statistics = synthetic_statistics(run);
  run.layout = small_layout(7);
  run.layout.cache = 1;
  run.value = [](const Provenance& w) { return w.prompt == 7 ? 3.0F : 1.0F; };
  statistics.caches.push_back(synthetic_cache(run));
  const Artifact a = solved_artifact(statistics);
  ASSERT_EQ(a.layers.size(), 2U);
  EXPECT_TRUE(a.layers[0].value.growth.converged);
  EXPECT_EQ(a.evidence.converged, false);
  EXPECT_EQ(a.layers[1].name, "model.language_model.layers.7.self_attn");
}

TEST(MakeArtifact, FiguresAtTheScaleAndAtOne) {
  const ArtifactLayer layer = solved_artifact(synthetic_statistics(stressed_run())).layers[0];
  const ArtifactError &key = layer.key.error, &value = layer.value.error, &query = layer.query.error;
  EXPECT_NEAR(key.at_scale, 0.0265, 0.002);
  EXPECT_EQ(key.clipped_at_scale, 0);
  EXPECT_GT(key.clipped_at_one, 1e-5);
  EXPECT_GT(*key.noise_at_one, 1.02F * *key.noise_at_scale);
  EXPECT_LT(*key.dominating_at_scale, 0.5);
  EXPECT_NEAR(value.at_scale, 0.0265, 0.002);
  EXPECT_EQ(value.at_one, 1);
  EXPECT_LT(value.lost_at_scale, 0.01);
  EXPECT_EQ(value.lost_at_one, 1);
  EXPECT_GT(query.lost_at_one, 0.5);
}

// ------------------------------------------------------------------ kv_cache

TEST(KvCache, HasEveryLayer) {
  const Artifact a = solved_artifact(synthetic_statistics(ordinary_run()));
  ASSERT_EQ(a.kv_cache.size(), 8U);
  for (size_t layer = 0; layer < 8; ++layer)
    EXPECT_EQ(a.kv_cache[layer], layer == 3 ? std::max(a.layers[0].key.scale, a.layers[0].value.scale) : 1.0F);
  const Json json = to_json(a);
  EXPECT_EQ(json["kv_cache"]["scaling_factor"]["0"].size(), 8U);
  EXPECT_EQ(json["kv_cache"]["dtype"], "float8_e4m3fn");
  EXPECT_FALSE(json.contains("kv_cache_left_out"));
}

TEST(KvCache, IsLeftOutWhereOneScaleLosesASite) {
  const Artifact a = solved_artifact(synthetic_statistics(stressed_run()));
  EXPECT_EQ(a.layers[0].key.verdict(), Verdict::Needed);
  EXPECT_EQ(a.layers[0].value.verdict(), Verdict::Needed);
  EXPECT_TRUE(a.layers[0].joint.loses_value);
  EXPECT_TRUE(a.kv_cache.empty());
  EXPECT_NE(a.kv_cache_left_out.find("layer 3 value"), std::string::npos) << a.kv_cache_left_out;
  const Json json = to_json(a);
  EXPECT_FALSE(json.contains("kv_cache"));
  EXPECT_EQ(json["layers"][0]["joint"]["verdict"], "inadequate");
}

TEST(KvCache, IsLeftOutForOtherFormatsAndWithoutAModelType) {
  Statistics statistics = synthetic_statistics(ordinary_run());
  SolveOptions options;
  options.format = "int8";
  EXPECT_NE(solved_artifact(statistics, options).kv_cache_left_out.find("int8"), std::string::npos);
  statistics.run.model->model_type = "";
  EXPECT_NE(solved_artifact(statistics).kv_cache_left_out.find("model_type"), std::string::npos);
}

// ------------------------------------------------------------------ refusals

TEST(MakeArtifact, RefusesRecordsThatLackSomething) {
  const Statistics good = synthetic_statistics(ordinary_run());
  const auto refused = [&](const char* expected, auto change) {
    Statistics statistics = good;
    change(statistics);
    try {
      solved_artifact(statistics);
      ADD_FAILURE() << expected;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(expected), std::string::npos) << e.what();
    }
  };
  refused("no KV cache", [](Statistics& s) { s.caches.clear(); });
  refused("which model", [](Statistics& s) { s.run.model.reset(); });
  refused("what was fed", [](Statistics& s) { s.run.calibration.reset(); });
  refused("own no cache", [](Statistics& s) { s.run.layers_without_kv.reset(); });
  refused("n_layers", [](Statistics& s) { s.run.model->n_layers = 0; });
  refused("layer 9", [](Statistics& s) { s.caches[0].layout.layer = 9; });
  refused("layer 3 after one of layer 3", [](Statistics& s) { s.caches.push_back(s.caches[0]); });
  refused("in prompt", [](Statistics& s) {
    for (HeadStatistics& head : s.caches[0].at(CacheSite::Key).heads) head.where.prompt = 100;
  });
  refused("no observations", [](Statistics& s) { s.caches[0].at(CacheSite::Key).n_tokens = 0; });
}

}  // namespace
}  // namespace kvcal
