// Recurrent states of a scale file: their figures fit one another, and the model.
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "unit/validate_fixture.h"

namespace kvcal {
namespace {

using Ids = std::set<std::string>;

constexpr int64_t kHeads = 2, kKeys = 4, kValues = 3;

/// sound() with the state of layer 2, of a run in one pass.
Json with_state() {
  Json j = sound();
  Json growth = j["layers"][0]["key"]["growth"];
  growth["converged"] = true;
  growth["last_quarter"] = 0;
  growth["depends_on"] = nullptr;
  j["version"] = kArtifactVersion;
  j["state_layers"] = {
      {{"index", 2},
       {"kind", "gated_delta_net"},
       {"heads", kHeads},
       {"keys", kKeys},
       {"values", kValues},
       {"observations", 12},
       {"absmax", 6.5},
       {"absmax_per_head", {2.25, 6.5}},
       {"absmax_by_position", {0, 0, 6.5}},
       {"error_fp8_e4m3",
        {{"at_one", 0.03}, {"clipped_at_one", 0}, {"lost_at_one", 0}, {"at_range", 0.03}, {"lost_at_range", 0}}},
       {"where", j["layers"][0]["key"]["where"]},
       {"growth", growth}}};
  Json& where = j["state_layers"][0]["where"];
  where["head"] = 1;
  where["channel"] = 11;
  where["position"] = 3;
  where["pass"] = 1;
  return j;
}

ModelIdentity with_its_state() {
  ModelIdentity model = its_model();
  LayerSpec& layer = model.spec.layers[2];
  layer.state_bytes = kHeads * kKeys * kValues * 4;
  layer.state_heads = kHeads;
  layer.state_row = kKeys;
  return model;
}

Ids found(const std::function<void(Json& state)>& change, const ModelIdentity* model = nullptr) {
  Json j = with_state();
  change(j["state_layers"][0]);
  Ids ids;
  for (const Finding& f : validate_artifact(j.dump(), shipped_schema(), model).findings) {
    EXPECT_TRUE(f.path.starts_with("state_layers") || f.rule == "A06") << f.rule << " " << f.path << ": " << f.what;
    ids.insert(f.rule);
  }
  return ids;
}

TEST(ValidateStates, FiguresFitOneAnother) {
  EXPECT_EQ(found([](Json&) {}), Ids{});
  EXPECT_EQ(found([](Json& s) { s["absmax"] = 0.001; }), Ids{"R02"});
  EXPECT_EQ(found([](Json& s) { s["absmax_per_head"][0] = 2.2501; }), Ids{"N03"});
  EXPECT_EQ(found([](Json& s) { s["absmax_by_position"] = {0, 0, 0, 6.5}; }), Ids{"R03"});
  EXPECT_EQ(found([](Json& s) { s["absmax_by_position"] = {0, 6.25, 0}; }), Ids{"R04"});
  EXPECT_EQ(found([](Json& s) { s["where"]["head"] = 0; }), Ids{"R03"});
  EXPECT_EQ(found([](Json& s) { s["where"]["head"] = 99; }), Ids{"R03"});
  EXPECT_EQ(found([](Json& s) { s["where"]["channel"] = 12; }), Ids{"R03"});
  EXPECT_EQ(found([](Json& s) { s["where"]["pass"] = 77; }), Ids{"R03"});
  EXPECT_EQ(found([](Json& s) { s["growth"]["converged"] = false; }), Ids{"E03"});
  EXPECT_EQ(found([](Json& s) { s["growth"]["per_pass"] = {0, 0, 0, 0}; }), Ids{"E03"});
  EXPECT_EQ(found([](Json& s) { s["observations"] = 999999999; }), Ids{"R11"});
  EXPECT_EQ(found([](Json& s) { s["observations"] = 0; }), Ids{"A02"});
  EXPECT_EQ(found([](Json& s) { s["heads"] = 3; }), Ids{"A06"});
}

TEST(ValidateStates, TheModelHasThem) {
  const ModelIdentity model = with_its_state();
  const auto against = [&](const std::function<void(Json&)>& change) { return found(change, &model); };
  EXPECT_EQ(against([](Json&) {}), Ids{});
  EXPECT_EQ(against([](Json& s) { s["index"] = 3; }), Ids{"M07"});
  EXPECT_EQ(against([](Json& s) { s["index"] = 3000; }), Ids{"M07"});
  EXPECT_EQ(against([](Json& s) { s["kind"] = "mamba2"; }), Ids{"M07"});
  EXPECT_EQ(against([](Json& s) { s["keys"] = 7; }), Ids{"M06"});
  EXPECT_EQ(against([](Json& s) { s["values"] = 4; }), Ids{"M06"});
}

}  // namespace
}  // namespace kvcal
