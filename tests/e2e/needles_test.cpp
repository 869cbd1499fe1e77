// Whole evaluations with needles: what they may not depend on, and their table.
#include <gtest/gtest.h>

#include <algorithm>

#include "artifact/schema_check.h"
#include "base/read_file.h"
#include "e2e/runs.h"
#include "evaluate/evaluation_file.h"
#include "evaluate/make_variants.h"
#include "evaluation_text.h"

namespace kvcal {
namespace {

const NeedleOptions kNeedles{.lengths = {120, 200}, .depths = {0, 100}};

Evaluation evaluated(bool reversed, int threads) {
  EvaluationOptions options;
  options.threads = threads;
  options.max_new_tokens = 3;
  options.prompts.max_length = 0;
  options.prompts.needles = kNeedles;
  const auto texts = [&](bool) {
    PromptSet set = load_prompts({source("datasets/demo/prompts.jsonl")});
    if (reversed) std::ranges::reverse(set.records);
    return set;
  };
  Recorder listener;
  return evaluate(
      {.model = source("datasets/demo/stressed"),
       .prompts = texts,
       .open_device = [&] { return open_device("cpu", options.precision, threads); }},
      options,
      [](const ModelSpec& spec) {
        return VariantSet{{at_one(spec, stored_format("fp8_e4m3"))}, {}, {}};
      },
      listener);
}

std::string text_of(const Evaluation& evaluation) {
  return evaluation_text({"kvcal test", "bf16", {}}, evaluation, figures_of(evaluation));
}

TEST(NeedleEvaluation, BytesDoNotDependOnThreadsOrOrder) {
  EXPECT_TRUE(text_of(evaluated(false, 2)) == text_of(evaluated(true, 1)));
}

TEST(NeedleEvaluation, RunsTheNeedlesAlone) {
  const Evaluation evaluation = evaluated(false, 2);
  std::vector<std::string> ids;
  for (const PromptTokens& p : evaluation.prompts) ids.push_back(p.id);
  EXPECT_EQ(ids, (std::vector<std::string>{"needle-120-0", "needle-120-100", "needle-200-0", "needle-200-100"}));
  const std::string schema = read_file(source(std::string("schemas/") + kEvaluationSchemaFile), size_t{1} << 20);
  Json json = parse_json(text_of(evaluation));
  for (const SchemaError& e : check_schema(json, schema)) ADD_FAILURE() << e.path << ": " << e.message;
  Json& part = json["variants"][1]["by_tag"]["needle 200 depth 100"];
  EXPECT_EQ(part["correct"], 0);
  part["correct"] = 2;
  EXPECT_FALSE(check_schema(json, schema).empty());
}

TEST(NeedleEvaluation, SaysWhichVariantFindsWhich) {
  const Evaluation evaluation = evaluated(false, 2);
  EvaluationFigures figures = figures_of(evaluation);
  figures.variants[0].right_by_tag.at("needle 200 depth 100").n_correct = 1;
  figures.variants[1].right_by_tag.at("needle 120 depth 0").n_correct = 1;
  const std::string text = result_text(evaluation, figures, kNeedles).text();
  EXPECT_NE(text.find("needles found by  tokens  0 %  100 %\n"
                      "reference            120   no     no\n"
                      "reference            200   no    yes\n"
                      "scale_1.0            120  yes     no\n"
                      "scale_1.0            200   no     no\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("needle 120"), std::string::npos) << "tags have no table of their own then";
}

TEST(NeedleEvaluation, RightAnswersHaveATableByTagWithoutNeedles) {
  const Evaluation evaluation = evaluated(false, 2);
  EvaluationFigures figures = figures_of(evaluation);
  for (VariantFigures& v : figures.variants) v.right_by_tag = {{"facts", {4, 3}}, {"nothing expected", {0, 0}}};
  const std::string text = result_text(evaluation, figures, {}).text();
  EXPECT_NE(text.find("correct  reference  scale_1.0\n"
                      "facts       75.0 %     75.0 %\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("nothing expected"), std::string::npos);
}

}  // namespace
}  // namespace kvcal
