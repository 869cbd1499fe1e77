// The section about an evaluation: sound markup whatever stands in it, and geometry that can be computed by hand.
#include <gtest/gtest.h>

#include "report/estimates.h"
#include "report/evaluation_geometry.h"
#include "report/report.h"
#include "unit/evaluation_fixture.h"
#include "unit/report_html_checker.h"
#include "unit/solve_synthetic.h"
#include "unit/solved_artifact.h"

namespace kvcal {
namespace {

/// Of the scales that the page shows, unless `evaluated_as` says otherwise; of this severity in the first layer.
std::string page_of(const Json& json, const std::string& evaluated_as = "file", double severity = 0) {
  Artifact artifact = solved_artifact(synthetic_statistics(ordinary_run()));
  artifact.layers[0].key.assessment.at_scale.severity = severity;
  const SavedEvaluation evaluation = evaluation_from_json(json);
  ReportInput input = {artifact, nullptr, "scales.json", "kvcal test"};
  input.evaluation = &evaluation;
  input.evaluated_as = evaluated_as;
  const std::string page = report_html(input);
  HtmlChecker checker(page);
  EXPECT_EQ(checker.check(), "");
  EXPECT_TRUE(checker.addresses.empty());
  return page;
}

bool has(const std::string& page, std::string_view part) { return page.find(part) != std::string::npos; }

TEST(Estimates, AQuotientByNearlyNothingHasNoUpperEnd) {
  EXPECT_EQ(times_estimate({20.4, std::pair(14.5, 30.5)}), "20.4 (14.5 to 30.5)");
  EXPECT_EQ(times_estimate({51.67, std::pair(19.19, 2.793e9)}), "51.67 (19.19 or more)");
  EXPECT_EQ(times_estimate({3, std::nullopt}), "3");
}

TEST(EvaluationSection, ShowsAllThatWasMeasured) {
  const std::string page = page_of(sound_evaluation());
  EXPECT_TRUE(has(page, "<section id=\"evaluation\">"));
  EXPECT_TRUE(has(page, "<th scope=\"row\">scale_1.0</th><td class=\"n\">0.5</td>"));
  EXPECT_TRUE(has(page, "<figcaption>scale_1.0 "));
  EXPECT_FALSE(has(page, "<figcaption>reference "));
  EXPECT_LT(page.find(">layer 3</text>"), page.find(">layer 7</text>")) << "the more sensitive one is first";
  EXPECT_TRUE(has(page, ">0.0625, bf16</text>"));
  EXPECT_TRUE(has(page, "It is <mark>70 ropes.</mark>"));
  EXPECT_TRUE(has(page, "8 tokens, without end, loops over 1, <strong>wrong</strong>"));
  EXPECT_FALSE(has(page, "<summary>b")) << "all answer b alike";
}

// 0.0625 and 0.03125 are as 2 to 1, and so are the bars; the axis ends at 0.08, whose 180 units are 2250 for 1.
TEST(EvaluationSection, DrawsKlsByTheirLength) {
  const std::string page = page_of(sound_evaluation());
  EXPECT_TRUE(has(page, "width=\"140.6\" height=\"11\"/><text class=\"\" x=\"202.6\" y=\"12\">0.0625, bf16"));
  EXPECT_TRUE(has(page, "width=\"70.3\" height=\"11\"/><text class=\"\" x=\"132.3\" y=\"27\">0.03125, fp8_e4m3"));
  EXPECT_TRUE(has(page, ">0.08</text>"));
}

TEST(EvaluationSection, PutsVariantsWithOneAnswerTogether) {
  EXPECT_TRUE(has(page_of(sound_evaluation()), "<summary>a: scale_1.0, file from token 2, wrong</summary>"));
  Json json = sound_evaluation();
  json["answers"][0]["others"]["file"]["text"] = "It is 71 ropes.";
  EXPECT_TRUE(has(page_of(json), "<summary>a: scale_1.0 from token 2, wrong; file from token 2, wrong</summary>"));
}

TEST(EvaluationSummary, StandsBesideTheAnswers) {
  const std::string page = page_of(sound_evaluation());
  const size_t box = page.find("<div class=\"evaluated\">");
  ASSERT_NE(box, page.npos);
  EXPECT_LT(box, page.find("<section id=\"layers\">"));
  EXPECT_TRUE(has(page, "file <strong>(these scales)</strong></th><td class=\"n\">0.007812</td>"));
  EXPECT_TRUE(has(page, "Most sensitive layers:</strong> 3 (0.0625), 7 (0.03125)"));
  EXPECT_TRUE(has(page, "within 0.03125: bf16 in layer(s) 3; fp8_e4m3 in layer(s) 7; mean KL 0.01562, measured"));
}

TEST(EvaluationSummary, SaysWhatCameOutInsteadOfAskingForIt) {
  constexpr const char* kRequest = "; what that does to answers, <code>kvcal evaluate";
  Json json = sound_evaluation();
  std::string page = page_of(json, "file", 0.6);
  EXPECT_FALSE(has(page, kRequest));
  EXPECT_TRUE(has(page,
                  "with these scales 1 of 2 are the reference&#39;s, token by token; 1 of 2 are right, of the "
                  "reference&#39;s 1. <a href=\"#evaluation\">Read those that differ.</a> Attention changes most in "
                  "layer(s) 3; by measured KL, of 2 layers, layer 3 is no. 1."));
  EXPECT_TRUE(has(page, "mean KL 0.007812 with these scales, 0.5 at scale 1.0."));
  EXPECT_TRUE(has(page, "serve the evaluation's recipe, bf16 in layer(s) 3; fp8_e4m3 in layer(s) 7"));
  EXPECT_FALSE(has(page, "Nothing for layer")) << "the recipe is about all";
  page = page_of(json, "", 0.6);
  EXPECT_TRUE(has(page, kRequest)) << "it is not known to be of these scales";
  EXPECT_TRUE(has(page, "None of its variants is known to have the scales of this page."));
  for (Json& variant : json["variants"]) variant.erase("answers");
  json.erase("answers");
  page = page_of(json, "file", 0.6);
  EXPECT_TRUE(has(page, "compared no answers. Attention changes most in layer(s) 3; by measured KL"));
}

TEST(EvaluationSummary, KnowsScalesOfOneWithoutTheirFile) {
  const Artifact artifact = solved_artifact(synthetic_statistics(ordinary_run()), {});
  ASSERT_EQ(artifact.layers[0].key.scale, 1);
  const SavedEvaluation evaluation = evaluation_from_json(sound_evaluation());
  ReportInput input = {artifact, nullptr, "scales.json", "kvcal test"};
  input.evaluation = &evaluation;
  const std::string page = report_html(input);
  EXPECT_TRUE(has(page, "scale_1.0 <strong>(these scales)</strong>"));
  EXPECT_TRUE(has(page, "The evaluation compared answers: with these scales 1 of 2"));
  EXPECT_FALSE(has(page, "export --recipe")) << "which needs the file that it was found with";
}

TEST(EvaluationSection, ShowsErrorsOfRowsInTheWorstLayer) {
  constexpr const char* kTable = "How far the rows of the cache are off";
  Json json = sound_evaluation();
  EXPECT_FALSE(has(page_of(json), kTable)) << "of a file that does not say";
  json["variants"][1]["errors"] = {{{"index", 3}, {"key", 0.026}, {"value", 0.25}},
                                   {{"index", 7}, {"key", 0.03}, {"value", 0.125}}};
  json["variants"][2]["errors"] = {{{"index", 3}, {"latent", 0.5}}, {{"index", 7}, {"latent", nullptr}}};
  const std::string page = page_of(json);
  EXPECT_TRUE(has(page, kTable));
  EXPECT_TRUE(has(page,
                  "scale_1.0</th><td class=\"n\">0.5</td><td class=\"n\">3 %, layer 7</td><td class=\"n\">25 %, layer 3"
                  "</td><td class=\"n\">-</td>"));
  EXPECT_TRUE(has(page, "<td class=\"n\">-</td><td class=\"n\">-</td><td class=\"n\">not finite, layer 7</td>"));
}

TEST(EvaluationSection, IsLeftOutWithoutOne) {
  const Artifact artifact = solved_artifact(synthetic_statistics(ordinary_run()));
  EXPECT_FALSE(has(report_html({artifact, nullptr, "scales.json", "kvcal test"}), "id=\"evaluation\""));
}

TEST(EvaluationSection, ShowsWhatIsThere) {
  Json json = sound_evaluation();
  for (const char* part : {"layers", "recipe", "answers"}) json.erase(part);
  const std::string page = page_of(json);
  for (const char* title : {"Layers by sensitivity", "Most sensitive", "Recipe", "recipe", "<h3>Answers"})
    EXPECT_FALSE(has(page, title));
  json = sound_evaluation();
  json["answers"][0]["others"] = Json::object();
  EXPECT_TRUE(has(page_of(json), "answers every prompt as the reference does"));
}

TEST(EvaluationSection, EscapesStrangers) {
  const std::string attack = "<script>alert(1)</script>\"'&";
  Json json = sound_evaluation();
  json["variants"][1]["name"] = attack;
  json["variants"][1]["format"] = attack;
  json["precision"] = "bf16";
  for (Json& answers : json["answers"]) {
    answers["prompt"] = attack + answers["prompt"].get<std::string>();
    answers["reference"]["text"] = attack + "\nsecond line\x01 é";
    answers["others"] = {{attack, answers["reference"]}};
    answers["others"][attack]["text"] = attack + "\n" + std::string(9000, 'x') + "</div>";
  }
  const std::string page = page_of(json);
  EXPECT_FALSE(has(page, "<script"));
  EXPECT_TRUE(has(page, "&#39;&amp;<br/>second line\xEF\xBF\xBD é"));
  EXPECT_TRUE(has(page, "(cut)"));
  EXPECT_LT(page.size(), 200'000U);
}

TEST(EvaluationSection, ShowsVariantsThatAreNotFinite) {
  Json json = sound_evaluation();
  const auto spoil = [](Json& figures) {
    for (const char* part : {"kl", "top1", "nll", "nll_reference"}) figures.erase(part);
    figures["n_not_finite"] = figures["n_tokens"];
  };
  spoil(json["variants"][1]);
  for (Json& part : json["variants"][1]["by_position"]) spoil(part);
  json["layers"][0]["kl"] = nullptr;
  const std::string page = page_of(json);
  EXPECT_TRUE(has(page, "<td class=\"n\">not finite</td>"));
  EXPECT_TRUE(has(page, ">not finite, bf16</text>"));
}

TEST(KlAxis, HoldsTheLargestAndAtMostEightDecades) {
  const auto axis = [](std::vector<double> kls) {
    const KlAxis a = axis_of(kls);
    return std::pair(a.low, a.high);
  };
  EXPECT_EQ(axis({0.02, 0.5, 0}), std::pair(-2, 0));
  EXPECT_EQ(axis({0.001, 0.1}), std::pair(-3, -1)) << "powers of ten are ends";
  EXPECT_EQ(axis({1e-30, 3}), std::pair(-7, 1));
  EXPECT_EQ(axis({0.1}), std::pair(-2, -1));
  EXPECT_EQ(axis({0, 0}), std::pair(-1, 0));
  EXPECT_EQ(axis({}), std::pair(-1, 0));
  EXPECT_NEAR(height_of(0.1, {-2, 0}), 0.5, 1e-12);
  EXPECT_EQ(height_of(0, {-2, 0}), 0);
  EXPECT_EQ(height_of(1e-9, {-2, 0}), 0);
  EXPECT_EQ(height_of(7, {-2, 0}), 1);
}

TEST(CommonBeginning, EndsBetweenCharacters) {
  EXPECT_EQ(common_beginning("abc", "abd"), 2U);
  EXPECT_EQ(common_beginning("abc", "abc"), 3U);
  EXPECT_EQ(common_beginning("", "abc"), 0U);
  EXPECT_EQ(common_beginning("a\u00e9", "a\u00e8"), 1U) << "two bytes, of which the first are equal";
}

}  // namespace
}  // namespace kvcal
