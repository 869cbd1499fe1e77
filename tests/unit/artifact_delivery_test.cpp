// What a user is told about scales that a server may not load.
#include <gtest/gtest.h>

#include "artifact/delivery.h"
#include "base/error.h"
#include "unit/solve_synthetic.h"
#include "unit/solved_artifact.h"

namespace kvcal {
namespace {

Artifact artifact_of(SyntheticRun run, const SolveOptions& options = {}) {
  return solved_artifact(synthetic_statistics(run), options);
}

Artifact with_values_of(float size, const SolveOptions& options = {}) {
  SyntheticRun run = ordinary_run();
  run.value = [=, v = gaussian(1, 2)](const Provenance& where) mutable { return size * v(where); };
  return artifact_of(run, options);
}

bool says(const Artifact& artifact, const char* text) {
  return delivery_text(artifact).find(text) != std::string::npos;
}

TEST(Delivery, OfOnesNothingDepends) {
  const Artifact a = artifact_of(ordinary_run());
  EXPECT_TRUE(serves_as_it_is(a));
  EXPECT_TRUE(says(a, "serve the checkpoint as it is with --kv-cache-dtype fp8_e4m3")) << delivery_text(a);
  EXPECT_EQ(a.layers[0].value.departs, std::vector<Departure>());
}

TEST(Delivery, NamesWhatDepartsAndWhy) {
  const Artifact clipped = with_values_of(1000), small = with_values_of(1e-4F);
  EXPECT_FALSE(serves_as_it_is(clipped));
  EXPECT_TRUE(says(clipped, "value (32: 1.0 would clip); this alone depends")) << delivery_text(clipped);
  EXPECT_TRUE(says(small, "1.0 would lose small values")) << delivery_text(small);
  EXPECT_EQ(small.layers[0].value.departs, std::vector{Departure::SmallValues});
}

TEST(Delivery, DoesNotCallAFineScaleOneWhereALayerIsRuined) {
  Artifact a = artifact_of(ordinary_run());
  a.layers[0].key.assessment.fp8 = Fitness::Keep16;
  EXPECT_FALSE(says(a, "as it is")) << delivery_text(a);
}

TEST(Delivery, HoldsForAnyPolicyThatGivesOnesAndOtherwiseForThoseThatSeekThem) {
  Artifact a = artifact_of(ordinary_run(), absmax_options());
  EXPECT_EQ(delivery_text(a), "");
  EXPECT_EQ(a.layers[0].value.departs, std::nullopt);
  for (ArtifactLayer& l : a.layers) l.key.scale = l.value.scale = 1;
  EXPECT_TRUE(says(a, "every scale of the cache is 1.0")) << delivery_text(a);
  EXPECT_TRUE(says(a, "but queries where it computes attention in FP8: layer")) << delivery_text(a);
}

TEST(Delivery, ReasonsAreReadBackAndNoOthers) {
  const Artifact a = with_values_of(1e-4F);
  Json json = to_json(a);
  EXPECT_EQ(artifact_from_json(json).layers[0].value.departs, a.layers[0].value.departs);
  for (const Json& wrong : {Json::array({"small"}), Json::array({"small_values", "clipped"}), Json::array({1})}) {
    json["layers"][0]["value"]["departs_from_one"] = wrong;
    EXPECT_THROW(artifact_from_json(json), Error) << wrong;
  }
  json["layers"][0]["value"].erase("departs_from_one");  // as before 1.2
  EXPECT_EQ(artifact_from_json(json).layers[0].value.departs, std::nullopt);
}

}  // namespace
}  // namespace kvcal
