// Rules of validate for files of MLA models.
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "check/artifact_checks.h"
#include "check/folder_checks.h"
#include "unit/finding_examples.h"
#include "unit/scale_folder.h"
#include "unit/solved_artifact.h"
#include "unit/validate_fixture.h"

namespace kvcal {
namespace {

using Ids = std::set<std::string>;

const Json& sound_rows() {
  static const Json json = [] {
    SyntheticRun run = latent_run();
    run.n_prompts = 12;
    Statistics s = synthetic_statistics(run);
    s.run.model->max_positions = 1024;
    return to_json(solved_artifact(s, solve_options()));
  }();
  return json;
}

std::set<std::string> ids_of(const Report& report) {
  keep_examples(report);
  std::set<std::string> ids;
  for (const Finding& f : report.findings) ids.insert(f.rule);
  return ids;
}

std::set<std::string> rules_for(const std::function<void(Json& file, Json& latent)>& change) {
  Json json = sound_rows();
  change(json, json["layers"][0]["latent"]);
  return ids_of(validate_artifact(json.dump(1), shipped_schema()));
}

TEST(ValidateLatent, ASoundFileHasNoFindings) {
  EXPECT_EQ(rules_for([](Json&, Json&) {}), Ids{});
}

/// The model of sound_rows(): one MLA cache of rows [16 | 8].
ModelIdentity its_latent_model() {
  const SyntheticRun run = latent_run();
  ModelIdentity model = its_model();
  for (LayerSpec& l : model.spec.layers) l.cache = -1, l.kind = LayerKind::GatedDeltaNet;
  model.spec.caches = {run.layout};
  model.spec.layers[static_cast<size_t>(run.layout.layer)] = {run.layout.layer, LayerKind::Attention, 0};
  return model;
}

TEST(ValidateLatent, ComparesTheWidthOfTheRowWithTheModel) {
  const auto rules_against = [](const std::function<void(ModelIdentity&)>& change) {
    ModelIdentity model = its_latent_model();
    change(model);
    return ids_of(validate_artifact(sound_rows().dump(), shipped_schema(), &model));
  };
  EXPECT_EQ(rules_against([](ModelIdentity&) {}), Ids{});
  EXPECT_EQ(rules_against([](ModelIdentity& m) { m.spec.caches[0].head_dim_k = 32; }), Ids{"C06"});
  EXPECT_EQ(rules_against([](ModelIdentity& m) { m.spec.caches[0].head_dim_v = 20; }), Ids{"M06"});
}

/// What is found for a scale of the row in a folder.
Ids rules_for_stored(const std::function<float(const ArtifactSite&)>& scale) {
  const TempFolder folder;
  llm_compressor_folder().write(folder);
  const Checkpoint checkpoint = Checkpoint::open(folder / "model");
  const Artifact artifact = artifact_from_json(sound_rows());
  const ModelSpec spec = its_latent_model().spec;
  StoredScale key;
  key.owner = StoredScale::Owner::Cache;
  key.cache = spec.caches[0].cache;
  key.values = {scale(artifact.layers[0].latent)};
  StoredScales stored;
  stored.tensors = {key};
  Report report;
  check_against({checkpoint, spec, stored, {}}, {artifact, std::nullopt}, report);
  return ids_of(report);
}

TEST(ValidateLatent, NamesAScaleOfTheLatentPartAlone) {
  EXPECT_EQ(rules_for_stored([](const ArtifactSite& s) { return s.parts->absmax_latent / 448; }), Ids{"C06"});
  EXPECT_EQ(rules_for_stored([](const ArtifactSite& s) { return s.parts->absmax_latent / 448 * 0.98F; }), Ids{"S14"});
  EXPECT_EQ(rules_for_stored([](const ArtifactSite& s) { return s.scale; }), Ids{});
}

TEST(ValidateLatent, DamageGivesItsRule) {
  EXPECT_EQ(rules_for([](Json&, Json& l) { l["scale"] = 0; }), Ids{"S02"});
  EXPECT_EQ(rules_for([](Json&, Json& l) { l["scale"] = l["scale"].get<double>() * 3; }), Ids{"R01"});
  EXPECT_EQ(rules_for([](Json&, Json& l) { l["scale"] = l["scale"].get<double>() / 5; }), Ids{"S14"});
  EXPECT_EQ(rules_for([](Json&, Json& l) { l["absmax_rope"] = l["absmax_rope"].get<double>() * 2; }), (Ids{"R02"}));
  EXPECT_EQ(rules_for([](Json&, Json& l) { l["absmax_latent"] = 0; }), Ids{"N02"});
  EXPECT_EQ(rules_for([](Json&, Json& l) { l.erase("absmax_latent"); }), Ids{"A02"});
  EXPECT_EQ(rules_for([](Json&, Json& l) { l["where"]["channel"] = 2; }), Ids{"R03"});
  EXPECT_EQ(rules_for([](Json&, Json& l) { l["where"]["channel"] = 24; }), Ids{"R03"});
  EXPECT_EQ(rules_for([](Json&, Json& l) { l["error_latent"]["clipped_at_one"] = 0.5; }), Ids{"E01"});
  EXPECT_EQ(rules_for([](Json&, Json& l) { l["error_rope"]["lost_at_scale"] = 0.09; }), Ids{"E01"});
  EXPECT_EQ(rules_for([](Json&, Json& l) { l["verdict"] = "inadequate"; }), Ids{"A06"});
  EXPECT_EQ(rules_for([](Json& f, Json&) { f["layers"][0]["head_dim_v"] = 24; }), (Ids{"R12"}));
  EXPECT_EQ(rules_for([](Json& f, Json&) { f["layers"][0]["n_kv_heads"] = 2; }), Ids{"A02"});
  EXPECT_EQ(rules_for([](Json& f, Json&) { f["layers"][0].erase("latent"); }), Ids{"A02"});
  EXPECT_EQ(rules_for([](Json& f, Json& l) {
              f.erase("kv_cache_left_out");
              Json scales = Json::object();
              for (int i = 0; i < 8; ++i) scales[std::to_string(i)] = i == 3 ? l["scale"].get<double>() : 1.0;
              f["kv_cache"] = {{"dtype", "float8_e4m3fn"}, {"scaling_factor", {{"0", scales}}}};
            }),
            Ids{"R10"});
}

}  // namespace
}  // namespace kvcal
