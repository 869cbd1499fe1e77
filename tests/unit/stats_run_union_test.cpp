#include <gtest/gtest.h>

#include "stats/run_union.h"
#include "stats/statistics_file.h"
#include "unit/stats_fixture.h"

namespace kvcal::stats_test {
namespace {

/// Shard i of n of the small plan, or with n = 1 all of it.
Statistics shard(int64_t i, int64_t n) {
  std::vector<int64_t> sequences;
  for (int64_t s = i - 1; s < 5; s += n) sequences.push_back(s);
  Statistics part = observe_run(small_spec(), part_of(small_plan(), sequences), mixed_value);
  ModelInfo& model = part.run.model.emplace();
  model.architecture = "SmallModel";
  model.config_sha256 = "c";
  model.weights_fingerprint = "w";
  part.run.calibration = {"p", "plan", 3, 750, 300, 300, 2, "bf16", "avx2", "kvcal 1", "", {}, {}};
  part.run.plan_sha256 = "plan";
  part.run.tokenizer_sha256 = "t";
  if (n > 1) part.run.shard = {i, n};
  return part;
}

Statistics with(Statistics run, const std::function<void(RunRecord&)>& change) {
  change(run.run);
  return run;
}

/// What is said about a and b together, and then about finishing.
std::string message(const std::vector<Statistics>& runs) {
  return message_of([&] {
    RunUnion all;
    const std::string names = "abcdef";
    for (size_t i = 0; i < runs.size(); ++i) all.add(names.substr(i, 1), runs[i]);
    all.finish();
  });
}

Statistics other_plan(Statistics run) {
  return with(std::move(run), [](RunRecord& r) { r.plan_sha256 = r.calibration->plan_sha256 = "other"; });
}

TEST(RunUnion, OfShardsIsTheWholeRun) {
  const std::string whole = file_bytes(shard(1, 1));
  RunUnion all;
  for (const int64_t i : {2, 3, 1}) all.add("shard", shard(i, 3));
  EXPECT_TRUE(file_bytes(all.finish()) == whole);
  RunUnion one;
  one.add("whole", shard(1, 1));
  EXPECT_TRUE(file_bytes(one.finish()) == whole);
}

TEST(RunUnion, NamesTheShardsThatAreMissing) {
  EXPECT_EQ(message({}), "there are no statistics to merge");
  EXPECT_EQ(message({shard(2, 3)}), "shards 1/3, 3/3 missing beside 'a'");
  EXPECT_EQ(message({shard(2, 4), shard(1, 4), shard(4, 4)}), "shard 3/4 missing beside 'a'");
  EXPECT_EQ(message({shard(1, 2), other_plan(shard(2, 2))}),
            "shard 1/2 missing beside 'b'; shard 2/2 missing beside 'a'; the files are of 2 different plans: other "
            "prompts, tokens or options");
  const std::string many = message({with(shard(1, 2), [](RunRecord& r) { r.shard->count = 1 << 24; })});
  EXPECT_LT(many.size(), 300u) << many;
}

TEST(RunUnion, RefusesWhatIsThereTwice) {
  EXPECT_EQ(message({shard(1, 2), shard(1, 2)}), "shard 1/2 is there twice: 'a' and 'b'");
  EXPECT_EQ(message({shard(1, 1), shard(1, 1)}),
            "'b' cannot be merged with 'a': both are the same run, every token would count twice");
  const std::string mixed = "'b' cannot be merged with 'a': one is a shard of the run that the other holds whole";
  EXPECT_EQ(message({shard(1, 1), shard(1, 2)}), mixed);
  EXPECT_EQ(message({shard(1, 2), shard(1, 1)}), mixed);
  EXPECT_EQ(message({shard(1, 2), shard(2, 3)}),
            "'b' cannot be merged with 'a': it is shard 2/3, expected one of 2 shards");
  EXPECT_EQ(message({shard(1, 1), other_plan(shard(1, 1))}),
            "'a' cannot be merged with 'b': both have the prompt 'a', which would count twice");
}

TEST(RunUnion, RefusesOtherModelsTokenizersAndPrecisionsByName) {
  const std::vector<std::pair<std::function<void(RunRecord&)>, std::string>> cases = {
      {[](RunRecord& r) { r.model->architecture = "Other"; },
       "it is from another model: architecture is 'Other', expected 'SmallModel'"},
      {[](RunRecord& r) { r.model->config_sha256 = "x"; },
       "it is from another model: config_sha256 is 'x', expected 'c'"},
      {[](RunRecord& r) { r.model->weights_fingerprint = "x"; },
       "it is from another model: weights_fingerprint is 'x', expected 'w'"},
      {[](RunRecord& r) { r.tokenizer_sha256 = "x"; },
       "it was made with another tokenizer: tokenizer_sha256 is 'x', expected 't'"},
      {[](RunRecord& r) { r.calibration->precision = "f32"; },
       "it was computed in another precision, which is 'f32', expected 'bf16'"},
      {[](RunRecord& r) { r.calibration->isa = "amx"; },
       "it is from another class of processor, which is 'amx', expected 'avx2'"},
      {[](RunRecord& r) { r.calibration->tool_version = "kvcal 2"; },
       "it is from another version of the program, which is 'kvcal 2', expected 'kvcal 1'"},
      {[](RunRecord& r) { r.calibration->passes = 3; }, "the number of its passes is 3, expected 2"},
      {[](RunRecord& r) { r.calibration->max_length = 200; }, "its maximum length is 200, expected 300"},
      {[](RunRecord& r) { r.calibration->activation_quant = "fp8_token"; },
       "the rounding of activations that it emulates is 'fp8_token', expected none"},
  };
  for (const auto& [change, expected] : cases) {
    EXPECT_EQ(message({shard(1, 2), with(shard(2, 2), change)}), "'b' cannot be merged with 'a': " + expected);
    EXPECT_EQ(message({shard(1, 1), other_plan(with(shard(1, 1), change))}),
              "'b' cannot be merged with 'a': " + expected);
  }
  EXPECT_EQ(message({shard(1, 2), with(shard(2, 2),
                                       [](RunRecord& r) {
                                         r.sanity = {9.5, 9, 4};
                                       })}),
            "'b' cannot be merged with 'a': the sanity check of the same prompts by the same model is "
            "{\"mean_nll\":9.5,\"uniform_nll\":9.0,\"n_tokens\":4}, expected none");
  EXPECT_EQ(message({with(shard(1, 2), [](RunRecord& r) { r.calibration.reset(); })}),
            "'a': the statistics do not say what was fed");
}

TEST(RunUnion, RefusesBlocksThatMakeNoSense) {
  const auto broken = [](int64_t n_tokens) {
    return with(other_plan(shard(1, 1)), [&](RunRecord& r) {
      r.calibration->n_tokens = n_tokens;
      for (std::string& id : r.prompt_ids) id += "2";
    });
  };
  EXPECT_EQ(message({shard(1, 1), broken(-1)}), "calibration.n_tokens is -1");
  EXPECT_EQ(message({shard(1, 1), broken(int64_t{1} << 60)}), "calibration.n_tokens is 1152921504606846976");
}

TEST(Shard, IsKeptByTheFile) {
  const TemporaryPath path;
  write_statistics(path, shard(2, 3), Existing::Refuse);
  const Statistics read = read_statistics(path);
  EXPECT_EQ(read.run.shard, (Shard{2, 3}));
  EXPECT_EQ(read.run.tokenizer_sha256, "t");
}

}  // namespace
}  // namespace kvcal::stats_test
