// Whether the prompts are enough: what depends on one of them, and what a new one would do. Goldens:
// tests/reference/make_coverage_goldens.py.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/json.h"
#include "base/read_file.h"
#include "solve/dependence.h"
#include "solve/range_coverage.h"

namespace kvcal {
namespace {

const Json& golden() {
  static const Json json = parse_json(
      read_file(std::filesystem::path(KVCAL_SOURCE_DIR) / "tests/unit/data/coverage/coverage.json", size_t{1} << 24));
  return json;
}

void expect_golden(const Json& of) {
  const auto maxima = of["sample"].get<std::vector<float>>();
  const auto coverage = range_coverage(maxima, of["headroom"].get<double>());
  ASSERT_EQ(coverage.has_value(), !of["of_sample"].is_null());
  if (!coverage) return;
  EXPECT_DOUBLE_EQ(coverage->beyond_absmax, 1 / (static_cast<double>(maxima.size()) + 1));
  EXPECT_NEAR(*coverage->beyond_headroom / of["of_sample"].get<double>(), 1, 1e-9) << of.dump().substr(0, 80);
}

TEST(RangeCoverage, IsThatOfTheReference) {
  for (const Json& c : golden()["cases"])
    if (c.contains("sample")) expect_golden(c);
  for (const Json& c : golden()["odd"]) expect_golden(c);
}

// What range_coverage.h claims of its two statements, on distributions whose truth is known.
TEST(RangeCoverage, HoldsOnKnownDistributions) {
  const double noise = 1 + 4 / std::sqrt(golden()["runs"].get<double>());
  for (const Json& c : golden()["cases"]) {
    const auto figure = [&](const char* key) { return c[key].get<double>(); };
    EXPECT_LE(figure("exceeds_absmax"), figure("bound") * noise) << c["distribution"];
    EXPECT_LE(figure("exceeds_headroom"), figure("bound") * noise) << c["distribution"];
    if (c["distribution"].get<std::string>().find("eightfold") == std::string::npos) {
      EXPECT_LE(figure("exceeds_headroom"), figure("estimate") * noise + 1e-12) << c["distribution"];
    }
  }
}

TEST(RangeCoverage, KnowsNoHeadroomWhereThereIsNone) {
  const std::vector<float> maxima = {1, 2, 3};
  EXPECT_EQ(range_coverage(maxima, std::nullopt)->beyond_absmax, 0.25);
  EXPECT_FALSE(range_coverage(maxima, std::nullopt)->beyond_headroom);
  EXPECT_EQ(range_coverage(maxima, 1.0)->beyond_headroom, 0.25);
}

TEST(DependsOnPrompt, WhoseRemovalHalvesTheRange) {
  std::vector<float> maxima(16, 1.0F);
  for (size_t i = 0; i < maxima.size(); ++i) {
    maxima[i] = 8;
    EXPECT_EQ(depends_on_prompt(maxima, 2), (PromptDependence{i, 8.0}));
    maxima[i] = 1;
  }
  maxima[5] = 2;
  EXPECT_FALSE(depends_on_prompt(maxima, 2)) << "headroom 2 provides for it";
  maxima[5] = 2.015625F;
  EXPECT_TRUE(depends_on_prompt(maxima, 2));
  maxima[6] = 2;
  EXPECT_FALSE(depends_on_prompt(maxima, 2)) << "two prompts";
}

TEST(DependsOnPrompt, OddCases) {
  EXPECT_FALSE(depends_on_prompt(std::vector<float>{}, 2));
  EXPECT_FALSE(depends_on_prompt(std::vector<float>{7}, 2)) << "there are no others";
  EXPECT_FALSE(depends_on_prompt(std::vector<float>{0, 0}, 2));
  EXPECT_EQ(depends_on_prompt(std::vector<float>{0, 3}, 2), (PromptDependence{1, std::nullopt}));
}

TEST(DependsOnTag, WhosePromptsHaveTheRangeAmongThem) {
  const std::vector<float> maxima = {1, 9, 1, 8, 2};
  const PromptTags tags = {{"all", {0, 1, 2, 3, 4}}, {"both", {1, 3}}, {"first", {1}}, {"none", {0, 2}}};
  EXPECT_EQ(depends_on_tag(maxima, tags, 2), (TagDependence{"both", 4.5}));
  EXPECT_FALSE(depends_on_tag(maxima, tags, 4.5));
  EXPECT_FALSE(depends_on_tag(maxima, {}, 2));
  EXPECT_EQ(depends_on_tag(std::vector<float>{0, 3}, {{"x", {1}}}, 2), (TagDependence{"x", std::nullopt}));
}

}  // namespace
}  // namespace kvcal
