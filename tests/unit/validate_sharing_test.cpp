// Files of models whose later layers read an earlier layer's cache: they have no scales, and are served with its
// owner's.
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "unit/solved_artifact.h"
#include "unit/validate_fixture.h"

namespace kvcal {
namespace {

using Ids = std::set<std::string>;

/// Layer 6 reads the cache of layer 5, whose queries count twice.
const Json& shared() {
  static const Json json = [] {
    Statistics statistics = sound_statistics();
    statistics.run.layers_without_kv->at(2) = {6, "attention", 5};
    Json made = to_json(solved_artifact(statistics, solve_options()));
    Json& query = made["layers"][3]["query"];
    query["observations"] = query["observations"].get<int64_t>() * 2;
    return made;
  }();
  return json;
}

ModelIdentity sharing_model() {
  ModelIdentity model = its_model();
  model.spec.layers[6] = {6, LayerKind::Attention, -1, 3};  // cache 3 is that of layer 5
  return model;
}

Ids rules_for(const std::function<void(Json&)>& change) {
  Json json = shared();
  change(json);
  const ModelIdentity model = sharing_model();
  Ids ids;
  for (const Finding& f : validate_artifact(json.dump(), shipped_schema(), &model).findings) ids.insert(f.rule);
  return ids;
}

TEST(ValidateSharing, TheServersBlockHasTheOwnersScale) {
  const Json& scales = shared()["kv_cache"]["scaling_factor"]["0"];
  EXPECT_EQ(scales["6"], scales["5"]);
  EXPECT_NE(scales["5"], 1.0);
  EXPECT_EQ(scales["2"], 1.0);
}

TEST(ValidateSharing, ALayerThatIsListedWithItsOwnerIsRight) {
  EXPECT_EQ(rules_for([](Json&) {}), Ids{});
}

TEST(ValidateSharing, ALayerWithScalesOfItsOwnIsAnError) {
  EXPECT_EQ(rules_for([](Json& j) {
              Json own = j["layers"][3];
              own["index"] = 6;
              own["name"] = "model.language_model.layers.6.self_attn";
              own["query"]["observations"] = own["query"]["observations"].get<int64_t>() / 2;
              j["layers"][3]["query"]["observations"] = own["query"]["observations"];
              j["layers"].insert(j["layers"].begin() + 4, own);
              j["layers_without_kv"].erase(2);
              j["model"]["n_kv_layers"] = 6;
            }),
            Ids{"C08"});
}

TEST(ValidateSharing, AnotherOwnerOrNoneIsAnError) {
  EXPECT_EQ(rules_for([](Json& j) { j["layers_without_kv"][2].erase("shares_kv_with"); }), Ids{"R10"});
  EXPECT_EQ(rules_for([](Json& j) { j["layers_without_kv"][2]["shares_kv_with"] = 7; }), (Ids{"L06", "R10"}));
  // With the server's block to match, what is left contradicts the queries counted, and the model.
  EXPECT_EQ(rules_for([](Json& j) {
              j["layers_without_kv"][2].erase("shares_kv_with");
              j["kv_cache"]["scaling_factor"]["0"]["6"] = 1.0;
            }),
            (Ids{"M07", "R11"}));
  EXPECT_EQ(rules_for([](Json& j) {
              j["layers_without_kv"][2]["shares_kv_with"] = 4;
              j["kv_cache"]["scaling_factor"]["0"]["6"] = j["kv_cache"]["scaling_factor"]["0"]["4"];
            }),
            (Ids{"M07", "R11"}));
  EXPECT_EQ(rules_for([](Json& j) {
              j["layers_without_kv"][1]["shares_kv_with"] = 1;
              j["kv_cache"]["scaling_factor"]["0"]["2"] = j["kv_cache"]["scaling_factor"]["0"]["1"];
            }),
            (Ids{"M07", "R11"}));
}

TEST(ValidateSharing, QueriesOfEveryReaderCount) {
  EXPECT_EQ(rules_for([](Json& j) {
              Json& query = j["layers"][3]["query"];
              query["observations"] = query["observations"].get<int64_t>() / 2;
            }),
            Ids{"R11"});
}

}  // namespace
}  // namespace kvcal
