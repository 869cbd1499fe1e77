// evaluation.json as strangers may have written it: what is sound is read whole, everything else is one line.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>

#include "artifact/evaluation_schema.h"
#include "artifact/saved_evaluation.h"
#include "artifact/schema_check.h"
#include "base/read_file.h"
#include "unit/evaluation_fixture.h"

namespace kvcal {
namespace {

TEST(EvaluationSchema, IsPartOfTheProgram) {
  const auto path = std::filesystem::path(KVCAL_SOURCE_DIR) / "schemas" / "evaluation.v1.schema.json";
  EXPECT_TRUE(evaluation_schema() == read_file(path, size_t{1} << 20));
}

TEST(SavedEvaluation, IsReadWhole) {
  const SavedEvaluation e = evaluation_from_json(sound_evaluation());
  EXPECT_EQ(e.tool_version, "kvcal test");
  EXPECT_EQ(e.model.weights_fingerprint, std::string(64, 'b'));
  EXPECT_EQ(e.precision, "f32");
  EXPECT_EQ(e.n_prompts, 2);
  EXPECT_EQ(e.sha256_of("file"), std::string(64, 'd'));
  EXPECT_EQ(e.sha256_of("statistics"), "");
  ASSERT_EQ(e.variants.size(), 3U);
  const SavedVariant& v = e.variants[1];
  EXPECT_EQ(v.name, "scale_1.0");
  EXPECT_EQ(v.all.kl->mean, 0.5);
  EXPECT_EQ(v.all.kl->worst, 4);
  EXPECT_EQ(v.all.kl->worst_at.prompt, "a");
  EXPECT_EQ(v.all.nll, 1.75);
  EXPECT_EQ(v.by_tag.at("tag").n_tokens, 3);
  ASSERT_EQ(v.by_position.size(), 3U);
  EXPECT_EQ(v.by_position[2].first, 2);
  EXPECT_EQ(v.answers->n_endless, 1);
  ASSERT_EQ(e.layers.size(), 2U);
  EXPECT_EQ(e.layers[0].kl, 0.0625);
  EXPECT_EQ(e.recipe->layers, (decltype(e.recipe->layers){{3, "bf16"}, {7, "fp8_e4m3"}}));
  EXPECT_EQ(e.recipe->bytes_per_token, 768);
  ASSERT_EQ(e.answers.size(), 2U);
  ASSERT_EQ(e.answers[0].others.size(), 2U);
  EXPECT_EQ(e.answers[0].others[0].second.text, "It is 70 ropes.");
  EXPECT_EQ(e.answers[0].others[0].second.loop_period, 1);
  EXPECT_EQ(e.answers[0].others[0].second.first_divergence, 2);
  EXPECT_TRUE(faults_of(e).empty());
}

TEST(SavedEvaluation, NeedsNoMoreThanOneVariant) {
  Json json = sound_evaluation();
  for (const char* part : {"layers", "recipe", "answers"}) json.erase(part);
  json["variants"] = Json::array({json["variants"][0]});
  for (const char* part : {"correct", "loops", "answers"}) json["variants"][0].erase(part);
  const SavedEvaluation e = parse_evaluation_file(json.dump(), "e.json");
  EXPECT_FALSE(e.recipe.has_value());
  EXPECT_FALSE(e.variants[0].answers.has_value());
}

// A minor version may add members.
TEST(SavedEvaluation, TakesMembersOfLaterVersions) {
  Json json = sound_evaluation();
  json["version"] = "1.7";
  json["more"] = 1;
  json["variants"][0]["more"] = "x";
  EXPECT_EQ(evaluation_from_json(json).variants.size(), 3U);
}

// Patterns of the schema are about other members; answers are as long as they are.
TEST(SavedEvaluation, TakesLongAnswers) {
  Json json = sound_evaluation();
  json["answers"][0]["reference"]["text"] = std::string(1 << 20, 'x');
  EXPECT_EQ(parse_evaluation_file(json.dump(), "e.json").answers[0].reference.text.size(), size_t{1} << 20);
  json["prompts"]["sha256"] = std::string(1 << 20, 'c');
  EXPECT_THROW(evaluation_from_json(json), Error);
}

/// As version 1.1 has it: prompts of 4 and 2 tokens.
void add_prompts(Json& j) {
  Json& prompts = j["by_prompt"] = Json::array();
  for (const auto& [id, n_tokens] : {std::pair{"a", 4}, {"b", 2}}) {
    Json variants = Json::object();
    for (const Json& v : j["variants"])
      if (v["name"] != "reference") {
        const double mean = v["kl"]["mean"];
        variants[v["name"].get<std::string>()] = {{"kl", n_tokens == 4 ? mean / 2 : mean * 2}, {"top1", 0.75}};
      }
    prompts.push_back({{"prompt", id}, {"n_tokens", n_tokens}, {"variants", variants}});
  }
}

TEST(SavedEvaluation, HasFiguresByPrompt) {
  Json json = sound_evaluation();
  add_prompts(json);
  const SavedEvaluation e = parse_evaluation_file(json.dump(), "e.json");
  ASSERT_EQ(e.by_prompt.size(), 2U);
  EXPECT_EQ(e.by_prompt[1].n_tokens, 2);
  EXPECT_EQ(e.by_prompt[1].variants[0].first, "scale_1.0");
  EXPECT_EQ(e.by_prompt[1].variants[0].second.kl, 1);
}

/// As version 1.2 has it: what comes back of the values of layer 7 is not finite.
void add_errors(Json& j) {
  for (const size_t v : {1, 2})
    j["variants"][v]["errors"] = {{{"index", 3}, {"key", 0.026}, {"value", 1.25}},
                                  {{"index", 7}, {"key", 0.03}, {"value", nullptr}}};
}

TEST(SavedEvaluation, HasErrorsOfRows) {
  Json json = sound_evaluation();
  add_errors(json);
  const SavedEvaluation e = parse_evaluation_file(json.dump(), "e.json");
  EXPECT_TRUE(e.variants[0].errors.empty());
  const std::vector<SavedRowErrors>& errors = e.variants[1].errors;
  ASSERT_EQ(errors.size(), 2U);
  EXPECT_EQ(errors[0].index, 3);
  EXPECT_EQ(errors[0].key, 0.026);
  EXPECT_EQ(errors[0].value, 1.25);
  EXPECT_FALSE(errors[0].latent);
  EXPECT_EQ(errors[1].value, std::numeric_limits<double>::infinity());
  json["variants"][2]["errors"] = {{{"index", 7}, {"latent", 0.125}}};
  EXPECT_EQ(parse_evaluation_file(json.dump(), "e.json").variants[2].errors[0].latent, 0.125);
}

struct Broken {
  const char* name;
  std::function<void(Json&)> change;
  const char* message;  // part of it
};

void PrintTo(const Broken& broken, std::ostream* out) { *out << broken.name; }

class BrokenEvaluation : public testing::TestWithParam<Broken> {};

TEST_P(BrokenEvaluation, IsOneLine) {
  Json json = sound_evaluation();
  GetParam().change(json);
  try {
    parse_evaluation_file(json.dump(), "e.json");
    FAIL() << "was read";
  } catch (const Error& e) {
    const std::string message = e.what();
    EXPECT_NE(message.find(GetParam().message), std::string::npos) << message;
    EXPECT_TRUE(message.starts_with("'e.json'")) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
}

const Broken kBroken[] = {
    {"format", [](Json& j) { j["format"] = "kv-cache-scales"; }, "is a scale file, expected an evaluation"},
    {"version", [](Json& j) { j["version"] = "2.0"; }, "key 'version': "},
    {"no_variants", [](Json& j) { j.erase("variants"); }, "'variants'"},
    {"share_beyond_one", [](Json& j) { j["variants"][1]["top1"] = 1.5; }, "key 'variants[1].top1': "},
    {"negative_kl", [](Json& j) { j["variants"][1]["kl"]["mean"] = -1; }, "key 'variants[1].kl.mean': "},
    {"text_for_a_number", [](Json& j) { j["layers"][0]["kl"] = "x"; }, "key 'layers[0].kl"},
    {"no_digest", [](Json& j) { j["files"][0]["sha256"] = "d"; }, "key 'files[0].sha256': "},
    {"reference_not_first", [](Json& j) { std::swap(j["variants"][0], j["variants"][1]); }, "expected 'reference'"},
    {"variant_twice", [](Json& j) { j["variants"][2]["name"] = "scale_1.0"; }, "'variants[2].name': a variant's name"},
    {"mean_above_worst", [](Json& j) { j["variants"][1]["kl"]["mean"] = 5; }, "the mean KL: 5, expected at most 4"},
    {"median_above_p99", [](Json& j) { j["variants"][1]["kl"]["median"] = 3; }, "the median KL"},
    {"reference_moves", [](Json& j) { j["variants"][0]["kl"]["worst"]["kl"] = 1; }, "the reference's KL from itself"},
    {"kl_of_nothing", [](Json& j) { j["variants"][1]["n_not_finite"] = 6; }, "none, of no finite logits"},
    {"half_a_perplexity", [](Json& j) { j["variants"][1].erase("nll"); }, "both or none"},
    {"tokens", [](Json& j) { j["variants"][1]["n_tokens"] = 7; }, "the number of tokens: 7, expected 6"},
    {"positions", [](Json& j) { j["variants"][2]["by_position"].erase(0); }, "tokens by position: 5, expected 6"},
    {"positions_back", [](Json& j) { j["variants"][2]["by_position"][1]["from"] = 0; }, "where the part begins"},
    {"more_equal_than_all", [](Json& j) { j["variants"][1]["answers"]["n_equal"] = 3; }, "a count of answers"},
    {"layers_descending", [](Json& j) { std::swap(j["layers"][0], j["layers"][1]); }, "'layers[1].index': a layer"},
    {"layer_of_no_model", [](Json& j) { j["layers"][1]["index"] = 8; }, "expected less than the model's 8"},
    {"layer_missing", [](Json& j) { j["layers"].erase(0); }, "number of layers with a cache: 1, expected 2"},
    {"recipe_layer_twice", [](Json& j) { j["recipe"]["layers"][1]["index"] = 3; }, "'recipe.layers[1].index'"},
    {"recipe_of_one", [](Json& j) { j["recipe"]["layers"].erase(1); }, "'recipe.layers': the number of layers"},
    {"recipe_format", [](Json& j) { j["recipe"]["layers"][0]["format"] = "fp7"; }, "'fp7', expected"},
    {"recipe_above_its_limit", [](Json& j) { j["recipe"]["kl"] = 0.5; }, "the KL that was measured"},
    {"answer_of_nobody", [](Json& j) { j["answers"][0]["others"]["x\ny"] = j["answers"][0]["others"]["file"]; },
     "a variant that answers"},
    {"prompt_twice", [](Json& j) { j["answers"][1]["prompt"] = "a"; }, "one that has no answer yet"},
    {"prompt_missing", [](Json& j) { add_prompts(j), j["by_prompt"].erase(1); }, "number of prompts: 1, expected 2"},
    {"tokens_by_prompt", [](Json& j) { add_prompts(j), j["by_prompt"][0]["n_tokens"] = 3; }, "tokens by prompt: 5"},
    {"figures_of_a_prompt_twice", [](Json& j) { add_prompts(j), j["by_prompt"][1]["prompt"] = "a"; },
     "one that is not there yet"},
    {"variant_of_no_prompt", [](Json& j) { add_prompts(j), j["by_prompt"][1]["variants"].erase("file"); },
     "those of 'file'"},
    {"mean_of_prompts", [](Json& j) { add_prompts(j), j["by_prompt"][1]["variants"]["file"]["kl"] = 3; },
     "the mean KL of file over prompts"},
    {"negative_error", [](Json& j) { add_errors(j), j["variants"][1]["errors"][0]["key"] = -1; },
     "key 'variants[1].errors[0].key': "},
    {"errors_of_the_reference", [](Json& j) { add_errors(j), j["variants"][0]["errors"] = j["variants"][1]["errors"]; },
     "errors of the reference's rows: 2, expected none"},
    {"errors_descending", [](Json& j) { add_errors(j), j["variants"][1]["errors"][0]["index"] = 7; },
     "'variants[1].errors[1].index': a layer"},
    {"errors_of_no_layer", [](Json& j) { add_errors(j), j["variants"][1]["errors"][1]["index"] = 8; },
     "expected less than the model's 8"},
    {"errors_of_nothing",
     [](Json& j) {
       add_errors(j), j["variants"][2]["errors"][1].erase("key"), j["variants"][2]["errors"][1].erase("value");
     },
     "'variants[2].errors[1]': errors of a layer: of none"},
    {"errors_of_both_kinds", [](Json& j) { add_errors(j), j["variants"][2]["errors"][1]["latent"] = 0.5; },
     "'variants[2].errors[1]': errors of a layer: of both"},
    {"model_without_digest", [](Json& j) { j["model"].erase("config_sha256"); }, "'model.config_sha256' is missing"},
};

INSTANTIATE_TEST_SUITE_P(All, BrokenEvaluation, testing::ValuesIn(kBroken),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST(SavedEvaluation, HasLimits) {
  EXPECT_THROW(parse_evaluation("{\"a\":" + std::string(40, '[') + std::string(40, ']') + "}"), Error);
  EXPECT_THROW(parse_evaluation("{"), Error);
  EXPECT_THROW(evaluation_from_json(Json::array()), Error);
}

}  // namespace
}  // namespace kvcal
