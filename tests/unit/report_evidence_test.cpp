// What a reviewer is given: figures with intervals, the short summary, and the files that a page carries.
#include <gtest/gtest.h>

#include "base/base64.h"
#include "base/error.h"
#include "base/sha256.h"
#include "report/evidence_page.h"
#include "report/markdown.h"
#include "report/report.h"
#include "report/sections.h"
#include "unit/evaluation_fixture.h"
#include "unit/report_html_checker.h"
#include "unit/solve_synthetic.h"
#include "unit/solved_artifact.h"

namespace kvcal {
namespace {

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

Json estimate(double value, double low, double high) { return {{"value", value}, {"interval", {low, high}}}; }

Json concluded_evaluation() {
  Json json = sound_evaluation();
  Json pair = {{"variant", "file"}, {"against", "scale_1.0"}, {"n_worse", 0}, {"n_better", 7}};
  pair["kl"] = estimate(-0.5, -0.75, -0.25);
  json["conclusion"] = {{"n_groups", 7}, {"n_tokens", 6}, {"n_common", 0}, {"pairs", {pair}}};
  json["conclusion"]["variants"] = {
      {"scale_1.0", {{"kl", estimate(0.5, 0.25, 0.75)}, {"top1", estimate(0.75, 0.5, 0.875)}}},
      {"file", {{"kl", {{"value", 0.0078125}}}, {"top1", {{"value", 0.75}}}}}};
  json["conclusion"]["times_floor"] = {{"file", estimate(2, 1.5, 2.5)}};
  return json;
}

struct Pair {
  std::string scales, evaluation;
};

/// A scale file and an evaluation that was made with it.
Pair scales_and_evaluation(Json json = concluded_evaluation()) {
  const Artifact artifact = solved_artifact(synthetic_statistics(ordinary_run()));
  const std::string scales = artifact_text(artifact);
  json["model"] = to_json(artifact.model);
  json["files"][0]["sha256"] = sha256_hex(scales);
  for (const char* part : {"layers", "recipe"}) json.erase(part);
  return {scales, json.dump()};
}

std::string page_of(const Pair& files) { return evidence_page(files.scales, files.evaluation, "kvcal test"); }

std::string markdown_of(const Json& json) {
  const Artifact artifact = solved_artifact(synthetic_statistics(ordinary_run()));
  const SavedEvaluation evaluation = evaluation_from_json(json);
  ReportInput input = {artifact, nullptr, "scales.json", "kvcal test"};
  input.evaluation = &evaluation;
  input.evaluated_as = "file";
  return report_markdown(input);
}

/// With `file` as if it rounded recurrent states.
Json evaluation_of_states(const Json& slope) {
  Json json = concluded_evaluation();
  json["conclusion"]["variants"]["file"]["kl_slope"] = slope;
  std::string text = json.dump();
  constexpr std::string_view kFile = "\"file\"";
  for (size_t at = 0; (at = text.find(kFile, at)) != text.npos;) text.replace(at, kFile.size(), "\"state_bf16\"");
  return parse_json(text);
}

TEST(EvaluationSection, SaysWhetherTheKlGrowsWithThePosition) {
  const std::pair<Json, const char*> kSlopes[] = {
      {estimate(2, 1, 3), "the KL grows with the position, by 2 (1 to 3) per 1,000 tokens"},
      {estimate(2, -1, 3), "whether the KL grows with the position is not decided: 2 (-1 to 3) per 1,000 tokens"},
      {estimate(2, 0, 3), "whether the KL grows with the position is not decided: 2 (0 to 3) per 1,000 tokens"},
      {{{"value", 2}}, "whether the KL grows with the position is not decided: 2 per 1,000 tokens"},
      {estimate(-2, -3, -1), "the KL does not grow with the position: -2 (-3 to -1) per 1,000 tokens"},
      {estimate(0, 0, 0), "the KL does not grow with the position: 0 (0 to 0) per 1,000 tokens"}};
  for (const auto& [slope, sentence] : kSlopes) {
    const Artifact artifact = solved_artifact(synthetic_statistics(ordinary_run()));
    const SavedEvaluation evaluation = evaluation_from_json(evaluation_of_states(slope));
    EXPECT_TRUE(faults_of(evaluation).empty());
    ReportInput input = {artifact, nullptr, "scales.json", "kvcal test"};
    input.evaluation = &evaluation;
    const std::string page = report_html(input), chart = "mean KL, logarithmic</span>";
    EXPECT_TRUE(has(page, "<figcaption>state_bf16 <span class=\"of\">" + chart + "<br/><span class=\"of\">" + sentence +
                              "</span></figcaption>"))
        << sentence;
    EXPECT_TRUE(has(page, "<figcaption>scale_1.0 <span class=\"of\">" + chart + "</figcaption>"));
  }
}

// RFC 4648, section 10, and every byte.
TEST(Base64, GoesBothWays) {
  const std::pair<const char*, const char*> kVectors[] = {{"", ""},
                                                          {"f", "Zg=="},
                                                          {"fo", "Zm8="},
                                                          {"foo", "Zm9v"},
                                                          {"foob", "Zm9vYg=="},
                                                          {"fooba", "Zm9vYmE="},
                                                          {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, digits] : kVectors) EXPECT_EQ(base64_of(bytes), digits);
  std::string all;
  for (int i = 0; i < 258; ++i) {
    std::string digits = base64_of(all);
    digits.resize(digits.find_last_not_of('=') + 1);
    EXPECT_EQ(bytes_of_base64(digits), all);
    all += static_cast<char>(i);
  }
}

TEST(CarriedFiles, ComeBackFromThePage) {
  const Pair files = scales_and_evaluation();
  const std::string page = page_of(files);
  HtmlChecker checker(page);
  EXPECT_EQ(checker.check(), "");
  EXPECT_EQ(writer_of(page), "kvcal test");
  const std::vector<CarriedFile> carried = carried_files(page);
  ASSERT_EQ(carried.size(), 2U);
  EXPECT_EQ(carried[0].name, "kv-cache-scales.json");
  EXPECT_EQ(carried[0].text, files.scales);
  EXPECT_EQ(carried[1].name, "evaluation.json");
  EXPECT_EQ(carried[1].text, files.evaluation);
  EXPECT_EQ(page_of({carried[0].text, carried[1].text}), page);
  EXPECT_TRUE(carried_files("<p>nothing</p>").empty());
}

TEST(CarriedFiles, OfABrokenPageAreRefused) {
  const std::string page = page_of(scales_and_evaluation());
  const size_t link = page.find("base64,") + 7;
  EXPECT_THROW(carried_files(page.substr(0, link + 100)), Error);
  std::string other = page;
  other[link + 10] = '!';
  EXPECT_THROW(carried_files(other), Error);
}

TEST(EvidencePage, IsOfFilesThatBelongTogether) {
  const Pair files = scales_and_evaluation();
  EXPECT_THROW(page_of({files.scales + " ", files.evaluation}), Error) << "other bytes";
  Json json = Json::parse(files.evaluation);
  json["model"]["weights_fingerprint"] = std::string(64, 'e');
  EXPECT_THROW(page_of({files.scales, json.dump()}), Error);
}

// An evaluation of other scales, or a list of files that names no variant, is no evidence of these.
TEST(EvidencePage, IsOfScalesThatWereEvaluated) {
  Pair files = scales_and_evaluation();
  Json json = Json::parse(files.evaluation);
  json["files"][0]["name"] = "nobody";
  EXPECT_THROW(page_of({files.scales, json.dump()}), Error);
  json["files"] = Json::array();
  EXPECT_THROW(page_of({files.scales, json.dump()}), Error);
}

TEST(CarriedFiles, HaveNamesThatAreNoPaths) {
  const auto link = [](const std::string& name) {
    return "<a download=\"" + name + "\" href=\"data:application/json;base64,e30K\">x</a>";
  };
  EXPECT_EQ(carried_files(link("a-1.json")).at(0).text, "{}\n");
  for (const std::string& name :
       {std::string("../a"), std::string(), std::string(65, 'a'), std::string("<a download=\"x")})
    EXPECT_THROW(carried_files(link(name)), Error) << name;
}

TEST(EvidencePage, SaysHowItIsMadeAgain) {
  Json json = concluded_evaluation();
  for (const char* name : {"floor", "undivided", "nvfp4", "state_int8", "$(int8)", "swapped"})
    json["variants"].push_back(evaluated_variant(name, "x", 0.25));
  for (const char* name : {"file_2", "statistics"})
    json["files"].push_back({{"name", name}, {"sha256", std::string(64, 'e')}});
  json["attention"] = "vllm@0.33.0:TRITON_ATTN";
  json["keep_recent"] = 16;
  json["state_chunk"] = 0;
  json["query"] = true;
  json["max_new_tokens"] = 32;
  json["until_decided"] = {{"max_kl", 0.02}, {"n_looks", 1}, {"n_planned", 2}, {"n_prompts_given", 2}};
  Pair files = scales_and_evaluation(json);
  json = Json::parse(files.evaluation);
  json["recipe"] = {{"max_kl", 0.02},
                    {"min_agreement", 0.9},
                    {"kl", 0.01},
                    {"top1", 0.95},
                    {"sum_kl", 0.01},
                    {"bytes_per_token", 64},
                    {"n_measured", 3},
                    {"layers", {{{"index", 3}, {"format", "bf16"}}}},
                    {"formats", {"fp8_e4m3", "bf16"}}};
  files.evaluation = json.dump();
  const std::string page = page_of(files);
  EXPECT_TRUE(
      has(page,
          "<code>kvcal evaluate MODEL --prompts FILE --precision f32 --stats FILE --scales kv-cache-scales.json "
          "FILE --floor --undivided --formats nvfp4 --state-dtype int8 --attention vllm@0.33.0:TRITON_ATTN --generate "
          "--max-new-tokens 32 --query --choose fp8_e4m3,bf16 --max-kl 0.02 --min-agreement 0.9 --keep-recent 16 "
          "--state-chunk 0 --until-decided 0.02 -o evaluation.json</code>"));
  EXPECT_TRUE(has(page, " --dtype fp8_e4m3 --granularity tensor --policy "));
  EXPECT_TRUE(has(page, "<code>" + sha256_hex(files.evaluation) + "</code>"));
}

TEST(Conclusion, StandsOnThePageWithItsIntervals) {
  const std::string page = page_of(scales_and_evaluation());
  EXPECT_TRUE(has(page, "7 prompts that differ, 6 tokens that do not repeat others"));
  EXPECT_TRUE(has(page,
                  "<th scope=\"row\">scale_1.0</th><td class=\"n\">0.5 (0.25 to 0.75)</td>"
                  "<td class=\"n\">75.00 % (50.00 to 87.50 %)</td>"));
  EXPECT_TRUE(has(page, "<td class=\"n\">2 (1.5 to 2.5)</td>"));
  EXPECT_TRUE(has(page, "<li>file is better than scale_1.0 by 0.5 (0.25 to 0.75) nats a token</li>"));
}

TEST(Conclusion, SaysNoDifferenceWhereNoneIsShown) {
  Json json = concluded_evaluation();
  json["conclusion"]["pairs"][0]["kl"] = estimate(-0.5, -0.75, 0.25);
  EXPECT_TRUE(
      has(markdown_of(json), "- no difference of `file` and `scale_1.0` shown: -0.5 (-0.75 to 0.25) nats a token.\n"));
  json["conclusion"]["pairs"][0]["kl"] = estimate(0.5, 0.25, 0.75);
  EXPECT_TRUE(has(markdown_of(json), "- `file` is worse than `scale_1.0` by 0.5 (0.25 to 0.75) nats a token.\n"));
  json["conclusion"]["pairs"][0]["kl"] = estimate(0, 0, 0);
  EXPECT_TRUE(has(markdown_of(json), "- `file` and `scale_1.0` do not differ.\n"));
  json["conclusion"]["pairs"][0]["kl"] = {{"value", 0.5}};
  EXPECT_TRUE(has(markdown_of(json), "- no difference of `file` and `scale_1.0` shown: 0.5 nats a token.\n"));
}

TEST(Conclusion, ThatContradictsItselfIsAFault) {
  const auto fault = [](const auto& change) {
    Json json = concluded_evaluation();
    change(json["conclusion"]);
    const std::vector<EvaluationFault> faults = faults_of(evaluation_from_json(json));
    return faults.empty() ? "" : faults[0].path;
  };
  EXPECT_EQ(fault([](Json&) {}), "");
  EXPECT_EQ(fault([](Json& c) { c["pairs"][0]["against"] = "nobody"; }), "conclusion.pairs[0]");
  EXPECT_EQ(fault([](Json& c) { c["pairs"][0]["kl"]["interval"] = {-0.25, -0.75}; }), "conclusion.pairs[0].kl");
  EXPECT_EQ(fault([](Json& c) { c["variants"]["nobody"] = c["variants"]["file"]; }), "conclusion.variants.nobody");
  EXPECT_EQ(fault([](Json& c) { c["variants"]["scale_1.0"]["top1"]["value"] = 75; }),
            "conclusion.variants.scale_1.0.top1");
  EXPECT_EQ(fault([](Json& c) {
              c["variants"]["scale_1.0"]["top1"]["interval"] = {-3, 0.875};
            }),
            "conclusion.variants.scale_1.0.top1");
  EXPECT_EQ(fault([](Json& c) { c["variants"]["scale_1.0"]["kl"]["value"] = 1e-9; }),
            "conclusion.variants.scale_1.0.kl");
  EXPECT_EQ(fault([](Json& c) { c["n_tokens"] = 5, c["variants"]["file"]["kl"]["value"] = 1; }),
            "conclusion.variants.file.kl");
  EXPECT_EQ(fault([](Json& c) { c["n_tokens"] = 5, c["variants"]["file"]["kl"]["value"] = -1; }),
            "conclusion.variants.file.kl");
  EXPECT_EQ(fault([](Json& c) { c["times_floor"]["file"]["interval"] = {2.5, 1.5}; }), "conclusion.times_floor.file");
  EXPECT_EQ(fault([](Json& c) { c["times_floor"]["nobody"] = c["times_floor"]["file"]; }),
            "conclusion.times_floor.nobody");
}

// The report refuses files with faults: it says of no such file that its KL grows.
TEST(Conclusion, AnImpossibleSlopeIsAFault) {
  const auto path_of = [](const Json& json) {
    const std::vector<EvaluationFault> faults = faults_of(evaluation_from_json(json));
    return faults.empty() ? "" : faults[0].path;
  };
  const std::string path = "conclusion.variants.state_bf16.kl_slope";
  EXPECT_EQ(path_of(evaluation_of_states(estimate(2, 1, 3))), "");
  EXPECT_EQ(path_of(evaluation_of_states(estimate(2, 2, 2))), "");
  for (const Json& slope : {estimate(4, 1, 3), estimate(0, 1, 3), estimate(2, 1, 1e300), estimate(2, 3, 1),
                            Json{{"value", 1e300}}, Json{{"value", -1e300}}})
    EXPECT_EQ(path_of(evaluation_of_states(slope)), path) << slope.dump();
  Json json = evaluation_of_states(estimate(2, 1, 3));
  json["conclusion"]["variants"]["state_bf16"].erase("kl");
  EXPECT_EQ(path_of(json), path) << "no mean KL";
  json = concluded_evaluation();
  json["conclusion"]["variants"]["file"]["kl_slope"] = estimate(2, 1, 3);
  EXPECT_EQ(path_of(json), "conclusion.variants.file.kl_slope") << "no state is rounded";
}

TEST(Markdown, IsATableAndTheAnswers) {
  const Artifact artifact = solved_artifact(synthetic_statistics(ordinary_run()));
  EXPECT_EQ(
      markdown_of(concluded_evaluation()),
      "**KV cache of `" + artifact.model.architecture +
          "` in `fp8_e4m3`**, against the cache as it is: 2 prompts, 6 tokens, in `f32`. In brackets intervals of "
          "95 %.\n\n"
          "| KV cache | mean KL | same top token | right answers | times the floor |\n|---|---|---|---|---|\n"
          "| `scale_1.0` | 0.5 (0.25 to 0.75) | 75.00 % (50.00 to 87.50 %) | 1 of 2 | - |\n"
          "| `file`, these scales | 0.007812 | 75.00 % | 1 of 2 | 2 (1.5 to 2.5) |\n\n"
          "- At scale 1.0 no layer is clearly worse.\n- At these scales rounding ruins the attention of no "
          "layer.\n- `file` is better than `scale_1.0` by 0.5 (0.25 to 0.75) nats a token.\n\nWeights `" +
          artifact.model.weights_fingerprint.substr(0, 12) + "`, prompts `cccccccccccc`, measured with `" +
          artifact.calibration.prompts_sha256.substr(0, 12) + "`; `kvcal test`, `test`.\n");
}

TEST(Markdown, LeavesACacheAloneThatIsRuinedThroughout) {
  Artifact artifact = solved_artifact(synthetic_statistics(ordinary_run()));
  for (ArtifactLayer& layer : artifact.layers) layer.key.assessment.fp8 = Fitness::Keep16;
  const std::vector<std::string> sentences = answer_sentences(artifact);
  EXPECT_EQ(sentences[0],
            "At these scales rounding ruins the attention of every layer: leave the cache in the model's dtype.");
  EXPECT_EQ(sentences[1], "At scale 1.0 no layer is clearly worse.");
}

// Names in an evaluation may be anybody's.
TEST(Markdown, ShowsWhatStrangersWroteAsCode) {
  Json json = sound_evaluation();
  json["variants"][2]["name"] = "a|b`<b>@you\n[x](http://y) \u202e _z_ #1";
  json["answers"] = Json::array();
  json.erase("answers");
  json["keep_recent"] = 16;
  const std::string text = markdown_of(json);
  EXPECT_TRUE(has(text, "| `a?b?<b>@you")) << text;
  EXPECT_EQ(text.find("\u202e"), text.npos);
  EXPECT_FALSE(has(text, "95 %"));
  EXPECT_TRUE(has(text, "in `f32`, rows rounded once their block of 16 is full.\n"));
  EXPECT_TRUE(has(text, "- No row is known to have the scales of `scales.json`.\n"));
}

}  // namespace
}  // namespace kvcal
