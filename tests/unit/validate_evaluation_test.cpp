// An evaluation damaged in one way gives the rule for that damage and no other.
#include "validate/validate_evaluation.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <set>

#include "artifact/json_text.h"
#include "base/sha256.h"
#include "unit/evaluation_fixture.h"
#include "unit/finding_examples.h"

namespace kvcal {
namespace {

using Ids = std::set<std::string>;

Ids ids_of(const Report& report) {
  keep_examples(report);
  Ids ids;
  for (const Finding& f : report.findings) ids.insert(f.rule);
  return ids;
}

ModelIdentity evaluated_identity() {
  ModelIdentity model;
  model.spec.architecture = evaluated_model().architecture;
  model.spec.layers.resize(8);
  for (const int layer : {3, 7}) {
    KvLayout layout;
    layout.layer = layer;
    model.spec.caches.push_back(layout);
  }
  model.config_sha256 = std::string(64, 'a');
  model.weights_fingerprint = std::string(64, 'b');
  model.fold = FoldMark{std::string(64, 'f'), 4, 0};
  return model;
}

struct Damage {
  const char* name;
  Ids expected;
  std::function<void(Json&)> change;
};

void PrintTo(const Damage& damage, std::ostream* out) { *out << damage.name; }

class DamagedEvaluation : public testing::TestWithParam<Damage> {};

TEST_P(DamagedEvaluation, GivesItsRuleAlone) {
  Json json = sound_evaluation();
  GetParam().change(json);
  const ModelIdentity model = evaluated_identity();
  const Report report = validate_evaluation(json_text(json), {&model, {}, {}});
  EXPECT_EQ(ids_of(report), GetParam().expected);
  for (const Finding& f : report.findings) EXPECT_GT(f.line, 0U) << f.path;
}

const Damage kDamages[] = {
    {"none", {}, [](Json&) {}},
    {"later_member", {}, [](Json& j) { j["later"] = 1; }},
    {"version", {"A04"}, [](Json& j) { j["version"] = "2.0"; }},
    {"schema", {"A02"}, [](Json& j) { j["variants"][0]["top1"] = 2; }},
    {"no_model", {"A06"}, [](Json& j) { j["model"].erase("architecture"); }},
    {"name_twice",
     {"D01"},
     [](Json& j) {
       j["variants"][2]["name"] = "scale_1.0";
       j["answers"][0]["others"].erase("file");
     }},
    {"file_twice", {"D01"}, [](Json& j) { j["files"].push_back(j["files"][0]); }},
    {"mean", {"D02"}, [](Json& j) { j["variants"][1]["by_tag"]["tag"]["kl"]["mean"] = 5; }},
    {"tokens", {"D03"}, [](Json& j) { j["variants"][1]["by_position"][2]["n_tokens"] = 3; }},
    {"layer_order", {"D04"}, [](Json& j) { j["layers"][1]["index"] = 3; }},
    {"layer_without_cache", {"D04"}, [](Json& j) { j["layers"][1]["index"] = 6; }},
    {"recipe_limit", {"D05"}, [](Json& j) { j["recipe"]["max_kl"] = 0.001; }},
    {"recipe_without_cache", {"D05"}, [](Json& j) { j["recipe"]["layers"][1]["index"] = 6; }},
    {"config", {"M01"}, [](Json& j) { j["model"]["config_sha256"] = std::string(64, 'e'); }},
    {"weights", {"M02"}, [](Json& j) { j["model"]["weights_fingerprint"] = std::string(64, 'e'); }},
    {"weights_before_a_fold", {"M04"}, [](Json& j) { j["model"]["weights_fingerprint"] = std::string(64, 'f'); }},
    {"architecture", {"M03"}, [](Json& j) { j["model"]["architecture"] = "LlamaForCausalLM"; }},
};

INSTANTIATE_TEST_SUITE_P(All, DamagedEvaluation, testing::ValuesIn(kDamages),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST(ValidateEvaluation, KnowsItsFiles) {
  EXPECT_TRUE(is_evaluation_text(sound_evaluation().dump()));
  EXPECT_FALSE(is_evaluation_text("{\"format\": \"kv-cache-scales\"}"));
  EXPECT_FALSE(is_evaluation_text("{\"format\": \"kv-cache-evaluation\""));
  EXPECT_FALSE(is_evaluation_text("[]"));
}

class BesideScales : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  Report report(const std::string& evaluated, const std::string& named) const {
    Json json = sound_evaluation();
    json["files"][0]["sha256"] = sha256_hex(evaluated);
    return validate_evaluation(
        json.dump(1),
        {.model = nullptr, .scales = named.empty() ? "" : folder_ / named, .file = folder_ / "evaluation.json"});
  }

 private:
  std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("kvcal evaluation " + std::to_string(::getpid()));
};

TEST_F(BesideScales, AreComparedByDigest) {
  EXPECT_EQ(ids_of(report("x", "")), Ids{}) << "nothing beside it";
  write("kv-cache-scales.json", "x");
  write("other.json", "y");
  EXPECT_EQ(ids_of(report("x", "")), Ids{});
  EXPECT_EQ(ids_of(report("y", "")), Ids{"D07"});
  EXPECT_EQ(ids_of(report("y", "other.json")), Ids{}) << "the one that was named counts";
  EXPECT_EQ(ids_of(report("x", "other.json")), Ids{"D06"});
  EXPECT_THROW(report("x", "nowhere.json"), Error);
}

TEST(ValidateEvaluation, SaysWhatItDidNotLookAt) {
  const Report report = validate_evaluation(sound_evaluation().dump(), {});
  for (const Report::Skipped& s : report.skipped_rules()) {
    EXPECT_NE(s.rule, "D02");
    if (s.rule == "M01") {
      EXPECT_EQ(s.reason, "needs --model");
    } else if (s.rule == "S01") {
      EXPECT_EQ(s.reason, "does not apply to evaluations");
    }
  }
}

}  // namespace
}  // namespace kvcal
