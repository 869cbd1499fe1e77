// Caches in FP8 at scale 1.0: called safe where they are, and only there.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "unit/compared_folder.h"

namespace kvcal {
namespace {

/// As ModelOpt's fp8_cast leaves a cache; with or without the scales of 1.0 written out.
struct AtOne : Compared {
  explicit AtOne(bool has_scales = true) {
    for (StoredScale& s : stored.tensors) s.values = {1};
    if (!has_scales) stored.tensors.clear();
    stored.declaration.method = "modelopt";
    stored.declaration.weights = "FP8";
    stored.declaration.scheme = Json{{"num_bits", 8}, {"type", "float"}, {"dynamic", false}};
    for (ArtifactLayer& l : artifact.layers)  // safe
      for (ArtifactSite* site : {&l.key, &l.value}) {
        site->absmax = 10;
        site->assessment.scale = ScaleNeed::Any;
        site->assessment.at_one.fitness = Fitness::Fine;
      }
  }
  Report judged() {
    const Checkpoint checkpoint = Checkpoint::open(folder / "model");
    Report report;
    check_against({checkpoint, spec, stored, {}}, {artifact, statistics}, report);
    return report;
  }
};

TEST(ValidateAtOne, SaysOfEachLayerWhetherOneIsSafe) {
  struct Case {
    const char* name;
    Ids expected;
    std::function<void(ArtifactSite&)> change;
  };
  const std::vector<Case> cases = {{"safe", {"S27"}, [](ArtifactSite&) {}},
                                   {"one clipped", {"S14", "S27"}, [](ArtifactSite& s) { s.absmax = 448.5F; }},
                                   {"the largest number", {"S15", "S27"}, [](ArtifactSite& s) { s.absmax = 448; }},
                                   {"one worse",
                                    {"S27", "S28"},
                                    [](ArtifactSite& s) {
                                      s.assessment.scale = ScaleNeed::Needed;
                                      s.assessment.at_one.decided_by = s.assessment.at_scale.decided_by = Figure::Rel;
                                      s.assessment.at_one.rel = 0.075;
                                      s.assessment.at_one.severity = 0.6;
                                      s.assessment.at_scale.rel = 0.025;
                                      s.assessment.at_scale.severity = 0.2;
                                    }},
                                   {"one ruined at any scale", {"S16", "S27"}, [](ArtifactSite& s) {
                                      s.assessment.at_one.fitness = Fitness::Keep16;
                                      s.scale = 0.5F;
                                    }}};
  for (const Case& c : cases)
    for (const bool has_scales : {true, false}) {
      AtOne at_one(has_scales);
      c.change(at_one.artifact.layers[1].value);
      const Report report = at_one.judged();
      EXPECT_EQ(ids_of(report), c.expected) << c.name << has_scales << "\n" << shown(report);
      const auto note = std::ranges::find(report.findings, "S27", &Finding::rule);
      EXPECT_EQ(note->what.starts_with("all measured layers"), c.expected.size() == 1) << c.name << note->what;
    }
}

TEST(ValidateAtOne, DoesNotCallSafeWhatItDoesNotKnow) {
  const auto ids = [](bool has_scales, const std::function<void(AtOne&)>& change) {
    AtOne at_one(has_scales);
    change(at_one);
    return ids_of(at_one.judged());
  };
  EXPECT_EQ(ids(false, [](AtOne& a) { a.stored.declaration = {}; }), Ids{});  // in 16 bits, as far as is known
  EXPECT_EQ(ids(false, [](AtOne& a) { a.stored.declaration.scheme = "NVFP4"; }), Ids{});
  EXPECT_EQ(ids(false, [](AtOne& a) { (*a.stored.declaration.scheme)["type"] = "int"; }), Ids{});
  EXPECT_EQ(ids(false, [](AtOne& a) { (*a.stored.declaration.scheme)["dynamic"] = true; }), Ids{});
  const auto says = [](const char* method, const char* algorithm) {
    return [=](AtOne& a) {
      a.stored.declaration = {};
      a.stored.declaration.method = method;
      a.stored.declaration.algorithm = algorithm;
    };
  };
  EXPECT_EQ(ids(false, says("fp8", "FP8")), Ids{"S27"});
  for (const char* other : {"INT8", "NVFP4", "fp8_e5m2", "none"})
    EXPECT_EQ(ids(false, says("fp8", other)), Ids{}) << other;
  EXPECT_EQ(ids(false, says("quark", "fp8_e4m3")), Ids{"S27"});
  EXPECT_EQ(ids(false, says("quark", "int8")), Ids{});
  EXPECT_EQ(ids(false, [](AtOne& a) { a.artifact.layers.clear(); }), Ids{});
  EXPECT_EQ(ids(true, [](AtOne& a) { a.stored.tensors[2].values = {std::nanf("")}; }), Ids{});  // that is S01
  EXPECT_EQ(ids(true, [](AtOne& a) { a.stored.tensors.pop_back(); }), Ids{});
}

}  // namespace
}  // namespace kvcal
