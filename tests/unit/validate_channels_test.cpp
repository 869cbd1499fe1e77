// Scale files with scales per channel: what we write is sound, and each damage has its rule.
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "check/artifact_checks.h"
#include "unit/validate_fixture.h"

namespace kvcal {
namespace {

using Ids = std::set<std::string>;

Ids ids_of(const Report& report) {
  Ids ids;
  for (const Finding& f : report.findings) ids.insert(f.rule);
  return ids;
}

std::string shown(const Report& report) {
  std::string out;
  for (const Finding& f : report.findings) out += f.rule + " " + f.path + ": " + f.actual + "\n";
  return out;
}

Report report_of(const std::function<void(Json&)>& change) {
  Json json = sound(Granularity::Channel);
  change(json);
  return validate_artifact(json.dump(1), shipped_schema());
}

TEST(ValidateChannels, FindsNothingInWhatWeWrite) {
  for (const char* policy : {"absmax", "pow2"}) {
    const Artifact a = solved_artifact(sound_statistics(), solve_options(Granularity::Channel, policy, "int8"));
    const Report report = validate_artifact(artifact_text(a), shipped_schema());
    EXPECT_TRUE(report.findings.empty()) << policy << "\n" << shown(report);
  }
}

TEST(ValidateChannels, GivesEachDamageItsRule) {
  const auto expect = [](const char* rule, const std::function<void(Json&)>& change) {
    const Report report = report_of([&](Json& j) { change(j["layers"][1]); });
    EXPECT_EQ(ids_of(report), (Ids{rule})) << shown(report);
  };
  expect("R01", [](Json& l) { l["value"]["scale_per_channel"][3] = l["value"]["scale"].get<double>() * 3; });
  expect("S14", [](Json& l) {
    for (Json& scale : l["value"]["scale_per_channel"]) scale = scale.get<double>() / 4;
  });
  expect("S17", [](Json& l) { l["key"]["scale_per_channel"].push_back(0.01); });
  expect("R06", [](Json& l) { l["key"].erase("scale_per_channel"); });
  expect("R06", [](Json& l) { l["key"]["scale_per_head"] = l["key"]["absmax_per_head"]; });
  expect("S02", [](Json& l) { l["key"]["scale_per_channel"][2] = 0; });
}

TEST(ValidateChannels, AChannelOfZerosIsSound) {
  const Report report = report_of([](Json& j) { j["layers"][1]["value"]["scale_per_channel"][3] = 1.0; });
  EXPECT_TRUE(report.findings.empty()) << shown(report);
}

}  // namespace
}  // namespace kvcal
