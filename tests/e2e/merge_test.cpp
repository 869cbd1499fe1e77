// Shards of a plan, merged in any order, are the run over the whole plan: the same statistics file, the same scale
// file.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/read_file.h"
#include "e2e/runs.h"
#include "stats/run_union.h"
#include "stats/statistics_file.h"
#include "unit/solved_artifact.h"

namespace kvcal {
namespace {

constexpr size_t kMostBytes = size_t{64} << 20;

struct Files {
  std::string statistics, scales;  // their bytes
  bool operator==(const Files&) const = default;
};

/// Through files, as the verbs do it.
Files files_of(const Statistics& statistics, const fs::path& file) {
  write_statistics(file, statistics, Existing::Replace);
  return {read_file(file, kMostBytes), artifact_text(solved_artifact(read_statistics(file)))};
}

class Shards : public ::testing::TestWithParam<const char*> {
 protected:
  std::vector<fs::path> measure_shards(int64_t n, const std::vector<PromptTokens>& prompts) {
    std::vector<fs::path> files;
    for (int64_t i = 0; i < n; ++i) {
      RunOptions options = options_;
      options.sequences.shard = i;
      options.sequences.n_shards = n;
      options.threads = 1 + static_cast<int>(i % 2);  // machines differ
      options.chunk_tokens = 256 * (1 + i % 3);
      options.sequences.warmup_passes = static_cast<int>(i % 2);
      files.push_back(scratch_.path() / (std::to_string(i + 1) + "of" + std::to_string(n)));
      write_statistics(files.back(), measure(model_, prompts, options), Existing::Refuse);
    }
    return files;
  }

  Files merged(const std::vector<fs::path>& files) {
    RunUnion all;
    for (const fs::path& file : files) all.add(file.filename().string(), read_statistics(file));
    return files_of(all.finish(), scratch_.path() / "merged");
  }

  RunOptions make_options() const {
    RunOptions options;
    options.sequences.passes = 3;
    options.sequences.max_length = 400;
    return options;
  }

  const fs::path model_ = source(GetParam());
  const Scratch scratch_;
  const RunOptions options_ = make_options();
};

TEST_P(Shards, give_the_bytes_of_one_run) {
  std::vector<PromptTokens> prompts = prompts_of({1, 40, 63, 300, 5, 129}, 90);
  prompts[1].weight = 2;
  const Files whole = files_of(measure(model_, prompts, options_), scratch_.path() / "whole");
  EXPECT_NE(whole.statistics.find("mean_nll"), std::string::npos) << "the sanity check belongs to it";
  for (const int64_t n : {1, 2, 3, 5}) {
    std::vector<fs::path> files = measure_shards(n, prompts);
    EXPECT_TRUE(merged(files) == whole) << n << " shards, ascending";
    std::reverse(files.begin(), files.end());
    EXPECT_TRUE(merged(files) == whole) << n << " shards, descending";
    std::rotate(files.begin(), files.begin() + n / 2, files.end());
    EXPECT_TRUE(merged(files) == whole) << n << " shards, rotated";
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, Shards,
                         ::testing::Values("tests/arch/golden/qwen3", "tests/arch/golden/qwen3_5",
                                           "tests/arch/golden/qwen3_next", "tests/arch/golden/mistral_window"),
                         [](const auto& c) { return fs::path(c.param).filename().string(); });

Statistics united(const std::vector<const Statistics*>& runs) {
  RunUnion all;
  for (size_t i = 0; i < runs.size(); ++i) all.add("run " + std::to_string(i), *runs[i]);
  return all.finish();
}

TEST(Sets, without_a_common_prompt_give_pass_one_of_a_run_over_all) {
  const fs::path model = source("tests/arch/golden/qwen3_5");
  const std::vector<PromptTokens> all = prompts_of({40, 63, 300, 5, 129}, 90);
  RunOptions options;
  options.sequences.passes = 1;
  const auto run = [&](size_t from, size_t to) {
    return measure(model,
                   {all.begin() + static_cast<std::ptrdiff_t>(from), all.begin() + static_cast<std::ptrdiff_t>(to)},
                   options);
  };
  const Statistics a = run(0, 2), b = run(2, 3), c = run(3, 5), whole = run(0, 5);
  const Scratch scratch;
  const Statistics merged = united({&a, &b, &c});
  const Files expected = files_of(merged, scratch.path() / "f");
  EXPECT_TRUE(files_of(united({&c, &a, &b}), scratch.path() / "f") == expected);
  const Statistics first = united({&c, &a});
  EXPECT_TRUE(files_of(united({&b, &first}), scratch.path() / "f") == expected) << "merged in two steps";

  const CalibrationInfo &says = *merged.run.calibration, &of_whole = *whole.run.calibration;
  ASSERT_TRUE(says.merged);
  EXPECT_EQ(says.merged->exact_passes, 1);
  EXPECT_EQ(says.merged->sets.size(), 3u);
  EXPECT_EQ(says.n_tokens, of_whole.n_tokens);
  EXPECT_EQ(says.longest, of_whole.longest);
  EXPECT_NE(says.plan_sha256, of_whole.plan_sha256);
  Statistics renamed = merged;
  renamed.run = whole.run;  // all that is measured is equal
  EXPECT_TRUE(files_of(renamed, scratch.path() / "f") == files_of(whole, scratch.path() / "f"));
}

TEST(Sets, with_packed_passes_differ_from_a_run_over_all) {
  const fs::path model = source("tests/arch/golden/qwen3_5");
  const std::vector<PromptTokens> all = prompts_of({40, 63, 90, 129}, 90);
  const Statistics a = measure(model, {all[0], all[2]}, RunOptions()),
                   b = measure(model, {all[1], all[3]}, RunOptions());
  const Statistics whole = measure(model, all, RunOptions());
  Statistics merged = united({&a, &b});
  EXPECT_EQ(merged.run.n_passes, 2);
  merged.run = whole.run;
  const Scratch scratch;
  EXPECT_FALSE(files_of(merged, scratch.path() / "f") == files_of(whole, scratch.path() / "f"))
      << "if this holds, the words about pass 1 are too modest";
}

TEST(Shard, makes_no_scales_before_all_are_merged) {
  RunOptions options;
  options.sequences.n_shards = 2;
  const Statistics shard = measure(source("tests/arch/golden/qwen3"), prompts_of({40, 63}, 90), options);
  try {
    solved_artifact(shard);
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("shard 1 of 2"), std::string::npos) << e.what();
  }
}

TEST(Shard, more_than_sequences_are_refused) {
  RunOptions options;
  options.sequences.n_shards = 4;
  EXPECT_THROW(measure(source("tests/arch/golden/qwen3"), prompts_of({40, 63}, 90), options), Error);
}

}  // namespace
}  // namespace kvcal
