// Whole evaluations of the demo models: what is known of them, and what may not matter.
#include "evaluate/evaluate.h"

#include <gtest/gtest.h>

#include "artifact/schema_check.h"
#include "base/read_file.h"
#include "calibrate/calibrate.h"
#include "e2e/runs.h"
#include "evaluate/evaluation_file.h"
#include "evaluate/make_variants.h"
#include "evaluate/rounding_tap.h"
#include "harness/message_of.h"
#include "solve/format_errors.h"

namespace kvcal {
namespace {

struct Evaluated {
  int64_t chunk_tokens = 0;
  int threads = 2;
  bool reversed = false;
  fs::path model = "datasets/demo/stressed";
  fs::path resume = {};
  int64_t keep_recent = 0, sample = 0;
  bool thirds = false;  // prompts 0, 4 and 8 alone
  int64_t max_new_tokens = 0;
  std::function<void(const RunStep&)> on_step = {};
  std::function<void(int64_t)> on_answer = {};
};

/// Hears of answers, too.
class Listener final : public Recorder {
 public:
  explicit Listener(const Evaluated& how) : Recorder(how.on_step), on_answer_(how.on_answer) {}
  void sweep_begins(const SweepOutline&) override { ++n_sweeps; }
  void answered(int64_t n, int64_t) override {
    if (on_answer_) on_answer_(n);
  }
  int n_sweeps = 0;

 private:
  std::function<void(int64_t)> on_answer_;
};

PromptSet prompts(const Evaluated& how) {
  PromptSet set = load_prompts({source("datasets/demo/prompts.jsonl")});
  set.records.resize(12);
  set.records[3].tags = {"a tag"};
  if (how.thirds) set.records = {set.records[0], set.records[4], set.records[8]};
  if (how.reversed) std::ranges::reverse(set.records);
  return set;
}

Evaluation run(const Evaluated& how, const MakeVariants& variants, Listener& listener) {
  EvaluationOptions options;
  options.threads = how.threads;
  options.chunk_tokens = how.chunk_tokens;
  options.resume = how.resume;
  options.keep_recent = how.keep_recent;
  options.sample = how.sample;
  options.max_new_tokens = how.max_new_tokens;
  return evaluate({.model = source(how.model.string()),
                   .prompts = [&](bool) { return prompts(how); },
                   .open_device = [&] { return open_device("cpu", options.precision, how.threads); }},
                  options, variants, listener);
}

Evaluation run(const Evaluated& how, const MakeVariants& variants) {
  Listener listener(how);
  return run(how, variants, listener);
}

/// By absmax, whose scales of the twins differ by the powers of two that their weights do.
Artifact scales_of(const fs::path& model) {
  CalibrationOptions options;
  options.solve.policy = "absmax";
  Recorder listener;
  return *calibrate({.model = source(model.string()),
                     .prompts = [](bool) { return prompts({}); },
                     .open_devices = [] { return open_device("cpu", Precision::BF16, 2); }},
                    options, listener)
              .artifact;
}

VariantSet usual(const ModelSpec& spec, const Artifact& artifact) {
  VariantSet set;
  set.compared = {at_one(spec, stored_format("fp8_e4m3")), at_scales(spec, artifact, "file")};
  set.compared.push_back(swapped(set.compared[1]));
  set.compared.push_back(in_format(spec, stored_format("fp8_per_token_head"), nullptr));
  set.compared.push_back(undivided(set.compared[1]));
  for (const char* dtype : {"bf16", "f16"}) set.compared.push_back(stored_states(spec, dtype));
  set.compared.push_back(floor_of(spec));
  set.whole = 1;
  for (const KvLayout& layout : spec.caches) set.layers.push_back(one_cache(set.compared[1], layout));
  return set;
}

std::string text_of(const Evaluation& evaluation) {
  return evaluation_text({"kvcal test", "bf16", {}}, evaluation, figures_of(evaluation));
}

TEST(Evaluate, TellsTheStressedModelFromItsNaturalTwin) {
  const Artifact stressed = scales_of("datasets/demo/stressed"), natural = scales_of("datasets/demo/natural");
  const auto kl = [](const Evaluation& e) {
    std::vector<double> means;
    for (const VariantFigures& v : figures_of(e).variants) means.push_back(v.all.kl.mean);
    return means;
  };
  const auto bad = kl(run({}, [&](const ModelSpec& spec) { return usual(spec, stressed); }));
  const auto good =
      kl(run({.model = "datasets/demo/natural"}, [&](const ModelSpec& spec) { return usual(spec, natural); }));
  EXPECT_EQ(bad[0], 0) << "of the reference";
  EXPECT_GT(bad[1], 0.3);
  EXPECT_GT(bad[3], bad[1]);
  EXPECT_LT(bad[2], 3e-4);
  EXPECT_LT(good[1], 3e-4);
  // They compute the same function.
  EXPECT_EQ(bad[2], good[2]);
  EXPECT_EQ(bad[4], good[4]);
}

/// By position, the floor of a run that compares nothing else.
std::vector<PredictionFigures> floor_by_position(const Evaluated& how) {
  const Evaluation e = run(how, [](const ModelSpec& spec) { return VariantSet{{floor_of(spec)}, {}, {}}; });
  return figures_of(e).variants[1].by_position;
}

TEST(Evaluate, TheFloorMovesPredictionsByTheRoundingOfActivationsAlone) {
  const std::vector<PredictionFigures> twins[] = {floor_by_position({.model = "datasets/demo/natural"}),
                                                  floor_by_position({})};
  ASSERT_GE(twins[0].size(), 6U);
  EXPECT_EQ(twins[0], twins[1]) << "they compute the same function with the same roundings";
  EXPECT_EQ(twins[0][0].kl.mean, 0) << "attention to one key adds up nothing";
  double largest = 0;
  for (const PredictionFigures& part : twins[0]) largest = std::max(largest, part.kl.mean);
  EXPECT_GT(largest, 0);
  EXPECT_LT(largest, 2e-4);
}

TEST(Evaluate, BytesDoNotDependOnThreadsBatchesOrOrder) {
  const Artifact artifact = scales_of("datasets/demo/stressed");
  const auto bytes = [&](const Evaluated& how) {
    return text_of(run(how, [&](const ModelSpec& spec) { return usual(spec, artifact); }));
  };
  const std::string expected = bytes({});
  EXPECT_TRUE(expected == bytes({.chunk_tokens = 256}));
  EXPECT_TRUE(expected == bytes({.threads = 1, .reversed = true}));
}

/// The first layer with a cache is layer 3, whose rows no variant has changed yet.
TEST(Evaluate, RowsAreOffByWhatStatisticsSayOfTheFormat) {
  CalibrationOptions options;
  Recorder listener;
  const CalibrationResult measured = calibrate({.model = source("datasets/demo/stressed"),
                                                .prompts = [](bool) { return prompts({}); },
                                                .open_devices = [] { return open_device("cpu", Precision::BF16, 2); }},
                                               options, listener);
  const Evaluation evaluation = run({}, [&](const ModelSpec& spec) {
    const RangesOf ranges = ranges_of(measured.statistics);
    return VariantSet{{in_format(spec, stored_format("fp8_per_token_head"), ranges),
                       in_format(spec, stored_format("int4_per_token_head"), ranges),
                       in_format(spec, stored_format("nvfp4_affine"), ranges), floor_of(spec)},
                      {},
                      {}};
  });
  const CacheStatistics& cache = measured.statistics.caches.at(0);
  for (const CacheSite site : {CacheSite::Key, CacheSite::Value}) {
    const FormatErrors expected = format_errors(cache, site, measured.statistics.run, SolveOptions{});
    const auto error_of = [&](size_t variant) { return evaluation.compared[variant].errors.of(0, site).value(); };
    EXPECT_NEAR(error_of(0), *expected.e4m3_per_row, 0.01 * *expected.e4m3_per_row) << name_of(site);
    EXPECT_NEAR(error_of(1), *expected.int4_per_row, 0.01 * *expected.int4_per_row) << name_of(site);
    EXPECT_GT(error_of(2), 0);
    EXPECT_FALSE(evaluation.compared[3].errors.of(0, site)) << "of the floor";
  }
}

struct Stopped {};

TEST(Evaluate, AStoppedRunGoesOnWithTheSameBytes) {
  const Artifact artifact = scales_of("datasets/demo/stressed");
  const MakeVariants variants = [&](const ModelSpec& spec) { return usual(spec, artifact); };
  const std::string expected = text_of(run({}, variants));
  const Scratch scratch;
  Evaluated how{.resume = scratch.path() / "state"};
  for (const int layer : {1, 4, 7}) {  // before, between and behind the layers where variants begin
    how.on_step = [&](const RunStep& step) {
      if (step.layer == layer) throw Stopped();
    };
    EXPECT_THROW(run(how, variants), Stopped);
    int first = -1;
    how.on_step = [&](const RunStep& step) { first = first < 0 ? step.layer : first; };
    Evaluation evaluation = run(how, variants);
    EXPECT_EQ(first, layer);
    EXPECT_TRUE(text_of(evaluation) == expected) << "stopped in layer " << layer;
    evaluation.resume->remove();
    EXPECT_FALSE(fs::exists(how.resume));
  }
}

/// One file, its layers on some of the prompts, a recipe, and answers.
VariantSet all_parts(const ModelSpec& spec, const Artifact& artifact) {
  VariantSet set;
  set.compared = {at_scales(spec, artifact, "file")};
  for (const KvLayout& layout : spec.caches) set.layers.push_back(one_cache(set.compared[0], layout));
  const Variant fp8 = at_scales(spec, artifact, "fp8_e4m3"),
                fp4 = in_format(spec, stored_format("nvfp4"), ranges_of(artifact));
  set.recipe = RecipeRequest{{1e-4}, {fp8, fp4}};
  return set;
}

TEST(Evaluate, EveryPartOfAStoppedRunGoesOn) {
  const Artifact artifact = scales_of("datasets/demo/stressed");
  const MakeVariants variants = [&](const ModelSpec& spec) { return all_parts(spec, artifact); };
  Evaluated how{.sample = 3, .max_new_tokens = 8};
  Listener whole(how);
  const std::string expected = text_of(run(how, variants, whole));
  ASSERT_GE(whole.n_sweeps, 4) << "the first, the sample's, and those of recipes";
  const Scratch scratch;
  how.resume = scratch.path() / "state";
  // In layer 5 of each sweep, then behind the fifth and the fifteenth of 24 answers.
  for (int sweep = 1; sweep <= whole.n_sweeps; ++sweep) {
    Listener* current = nullptr;
    how.on_step = [&](const RunStep& step) {
      if (step.layer == 5 && current->n_sweeps == 2 - (sweep == 1)) throw Stopped();
    };
    Listener listener(how);
    current = &listener;
    EXPECT_THROW(run(how, variants, listener), Stopped) << sweep;
  }
  how.on_step = {};
  for (const int64_t last : {5, 15}) {
    how.on_answer = [&](int64_t n) {
      if (n == last) throw Stopped();
    };
    Listener listener(how);
    EXPECT_THROW(run(how, variants, listener), Stopped);
    EXPECT_EQ(listener.n_sweeps, last == 5 ? 1 : 0) << "sweeps that were through";
  }
  how.on_answer = {};
  Listener listener(how);
  Evaluation evaluation = run(how, variants, listener);
  EXPECT_EQ(listener.n_sweeps, 0);
  EXPECT_TRUE(listener.heard("resuming after 15 answers")) << listener.text();
  EXPECT_TRUE(text_of(evaluation) == expected);
  evaluation.resume->remove();
  EXPECT_FALSE(fs::exists(how.resume));
  EXPECT_TRUE(listener.text().find("cannot remove") == std::string::npos) << listener.text();
}

TEST(Evaluate, AnswersOfAnotherLengthAreNotGoneOnWith) {
  const Artifact artifact = scales_of("datasets/demo/stressed");
  const MakeVariants variants = [&](const ModelSpec& spec) {
    return VariantSet{{at_scales(spec, artifact, "file")}, {}, {}};
  };
  const Scratch scratch;
  Evaluated how{.resume = scratch.path() / "state", .max_new_tokens = 4};
  run(how, variants);
  how.max_new_tokens = 5;
  const std::string said = message_of([&] { run(how, variants); });
  EXPECT_NE(said.find("belongs to another run: max_new_tokens is"), std::string::npos) << said;
}

TEST(Evaluate, ARunOfOtherVariantsIsNotGoneOnWith) {
  const Artifact artifact = scales_of("datasets/demo/stressed");
  const Scratch scratch;
  const Evaluated how{.resume = scratch.path() / "state"};
  run(how, [&](const ModelSpec& spec) { return usual(spec, artifact); });
  Artifact other = artifact;
  other.layers[0].key.scale *= 2;
  const std::string said = message_of([&] { run(how, [&](const ModelSpec& spec) { return usual(spec, other); }); });
  EXPECT_NE(said.find("belongs to another run: variants is"), std::string::npos) << said;
}

TEST(Evaluate, RowsOfABlockThatIsNotCompleteAreNotRounded) {
  const Artifact artifact = scales_of("datasets/demo/stressed");
  const auto with = [&](const Evaluated& how) {
    return run(how, [&](const ModelSpec& spec) {
      VariantSet set;
      set.compared = {at_one(spec, stored_format("fp8_e4m3")), at_scales(spec, artifact, "file")};
      return set;
    });
  };
  const Evaluation none = with({.keep_recent = 100000});
  for (const EvaluatedVariant& v : none.compared)
    for (const ComparedToken& t : v.tokens) ASSERT_EQ(t.difference.kl, 0);
  const Evaluation some = with({.keep_recent = 48}), all = with({});
  double before = 0;
  for (const ComparedToken& t : some.compared[0].tokens) {
    EXPECT_TRUE(t.position >= 48 || t.difference.kl == 0) << t.position;
    before += t.difference.kl;
  }
  EXPECT_GT(before, 0);
  EXPECT_LT(mean_kl(some.compared[0].tokens), mean_kl(all.compared[0].tokens));
  EXPECT_TRUE(text_of(some) == text_of(with({.chunk_tokens = 256, .threads = 1, .reversed = true, .keep_recent = 48})));
}

TEST(Evaluate, RecurrentStatesAndUndividedScalesHaveTheirVariants) {
  const Artifact artifact = scales_of("datasets/demo/stressed");
  const Evaluation evaluation = run({}, [&](const ModelSpec& spec) { return usual(spec, artifact); });
  const auto kl = [&](const std::string& name) {
    for (const VariantFigures& v : figures_of(evaluation).variants)
      if (v.name == name) return v.all.kl.mean;
    return -1.0;
  };
  EXPECT_GT(kl("state_bf16"), kl("state_f16"));  // three bits more
  EXPECT_GT(kl("state_f16"), 0);
  EXPECT_LT(kl("state_bf16"), 1e-2);
  EXPECT_GT(kl("undivided"), 0.3);
}

// Prompts are sorted by id, which their order in the file is.
TEST(Evaluate, SingleLayersOfASampleAreThoseOfItsPromptsAlone) {
  const Artifact artifact = scales_of("datasets/demo/stressed");
  const MakeVariants variants = [&](const ModelSpec& spec) { return usual(spec, artifact); };
  const Evaluation all = run({}, variants), sampled = run({.sample = 3}, variants),
                   part = run({.thirds = true}, variants);
  const EvaluationFigures figures = figures_of(sampled), of_all = figures_of(all), of_part = figures_of(part);
  for (size_t i = 0; i < of_all.variants.size(); ++i)
    EXPECT_EQ(figures.variants[i].all, of_all.variants[i].all) << "of all prompts";
  ASSERT_EQ(figures.layers.size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(figures.layers[i].all.kl.mean, of_part.layers[i].all.kl.mean);
    EXPECT_NE(figures.layers[i].all.kl.mean, of_all.layers[i].all.kl.mean);
  }
  EXPECT_EQ(figures.whole.kl.mean, of_part.variants[2].all.kl.mean);
  EXPECT_EQ(of_all.whole.kl.mean, of_all.variants[2].all.kl.mean);
  const Json json = parse_json(text_of(sampled));
  EXPECT_EQ(json["layers_sample"]["n_prompts"], 3);
  EXPECT_EQ(json["layers_sample"]["variant"], "file");
  const std::string schema = read_file(source(std::string("schemas/") + kEvaluationSchemaFile), size_t{1} << 20);
  for (const SchemaError& e : check_schema(json, schema)) ADD_FAILURE() << e.path << ": " << e.message;
}

TEST(Evaluate, WritesWhatTheSchemaSays) {
  const Artifact artifact = scales_of("datasets/demo/stressed");
  const std::string text = text_of(run({}, [&](const ModelSpec& spec) { return usual(spec, artifact); }));
  const std::string schema = read_file(source(std::string("schemas/") + kEvaluationSchemaFile), size_t{1} << 20);
  const Json json = parse_json(text);
  for (const SchemaError& e : check_schema(json, schema)) ADD_FAILURE() << e.path << ": " << e.message;
  EXPECT_EQ(json["layers"].size(), 2U);
  EXPECT_TRUE(json["variants"][0]["by_tag"].contains("a tag"));
  Json broken = json;
  broken["reference_twice"]["kl"] = 1;
  EXPECT_FALSE(check_schema(broken, schema).empty());
  broken = json;
  broken["variants"][1]["kl"].erase("mean");
  EXPECT_FALSE(check_schema(broken, schema).empty());
}

/// With answers to the demo's questions.
Evaluation questioned(const std::string& model, const MakeVariants& variants) {
  EvaluationOptions options;
  options.max_new_tokens = 64;
  Recorder listener;
  return evaluate({.model = source(model),
                   .prompts = [](bool) { return load_prompts({source("datasets/demo/questions.jsonl")}); },
                   .open_device = [] { return open_device("cpu", Precision::BF16, 2); }},
                  options, variants, listener);
}

TEST(Evaluate, TheNaturalModelAnswersRightAtOneToo) {
  const EvaluationFigures figures = figures_of(questioned("datasets/demo/natural", [](const ModelSpec& spec) {
    return VariantSet{{at_one(spec, stored_format("fp8_e4m3"))}, {}, {}};
  }));
  EXPECT_EQ(figures.variants[0].answers->n_correct, 24) << "of the reference";
  EXPECT_EQ(figures.variants[1].answers->n_correct, 24) << "at 1.0";
}

TEST(Evaluate, TheStressedModelAnswersRightWithItsScalesAlone) {
  const Artifact artifact = scales_of("datasets/demo/stressed");
  const Evaluation evaluation =
      questioned("datasets/demo/stressed", [&](const ModelSpec& spec) { return usual(spec, artifact); });
  const EvaluationFigures figures = figures_of(evaluation);
  std::vector<int64_t> correct;
  for (const VariantFigures& v : figures.variants) correct.push_back(v.answers->n_correct);
  const int64_t n = figures.variants[0].answers->n_expected;
  EXPECT_EQ(n, 24);
  EXPECT_GE(correct[0], n - 1) << "of the reference";
  EXPECT_LT(correct[1], n / 3) << "at 1.0";
  EXPECT_EQ(correct[2], correct[0]) << "at its scales";
  EXPECT_EQ(figures.variants[0].answers->n_equal, 24);
  EXPECT_TRUE(figures.variants[1].answers->first_divergence);
  const std::string schema = read_file(source(std::string("schemas/") + kEvaluationSchemaFile), size_t{1} << 20);
  const Json json = parse_json(text_of(evaluation));
  for (const SchemaError& e : check_schema(json, schema)) ADD_FAILURE() << e.path << ": " << e.message;
  EXPECT_EQ(json["answers"].size(), 24U);
  EXPECT_EQ(json["variants"][2]["correct"], json["variants"][0]["correct"]);
}

}  // namespace
}  // namespace kvcal
