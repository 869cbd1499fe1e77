// Whole runs with a library of attention, in no more memory than planned: prompts of any lengths make many plans, and
// the first result of each is compared with that of the own kernel.
#include <algorithm>
#include <cmath>

#include "engine/planned_run.h"

namespace kvcal::test {
namespace {

using Fault = StandInLog::Fault;

/// From 1 to 5,000 tokens, most just long enough for the library: few of them are as long, and plans many.
std::vector<int64_t> mixed_lengths(size_t n, int64_t longest) {
  constexpr int64_t kLengths[] = {64, 70, 66, 130, 65, 1, 67, 64, 63, 69};
  std::vector<int64_t> lengths;
  for (size_t i = 0; i < n; ++i) lengths.push_back(kLengths[i % std::size(kLengths)]);
  lengths[n / 2] = longest;
  return lengths;
}

std::vector<float> values(const std::vector<std::byte>& bytes) {
  std::vector<float> as_float(bytes.size() / sizeof(bf16));
  convert_to_float(DType::BF16, bytes.data(), as_float.data(), as_float.size());
  return as_float;
}

/// Relative RMS: two attentions differ by roundings, the layers after them by what becomes of those.
void expect_near(const Ran& theirs, const Ran& ours) {
  ASSERT_EQ(theirs.seen.size(), ours.seen.size());
  for (const auto& [key, bytes] : ours.seen) {
    const std::vector<float> a = values(theirs.seen.at(key)), b = values(bytes);
    ASSERT_EQ(a.size(), b.size());
    double error = 0.0, size = 0.0;
    for (size_t i = 0; i < a.size(); ++i) {
      error += std::pow(double{a[i]} - b[i], 2);
      size += std::pow(double{b[i]}, 2);
    }
    EXPECT_LE(error, std::pow(2e-2, 2) * size);
  }
}

struct Case {
  const char* model;
  int64_t chunk_tokens;
  std::vector<int64_t> lengths;
};

class RunWithLibrary : public testing::TestWithParam<Case> {};

TEST_P(RunWithLibrary, StaysWithinThePlanWhateverTheLengths) {
  const Case& c = GetParam();
  StandInLog log{Fault::None, {}};
  Asked asked{c.chunk_tokens};
  asked.library = &log;
  const Ran ran = run(c.model, asked, c.lengths);
  EXPECT_FALSE(log.plans.empty());
  EXPECT_LE(ran.memory.temporaries_peak, ran.plan.activations);
  for (const std::string& note : ran.notes) EXPECT_EQ(note.find("attention"), std::string::npos) << note;
}

// Of 64 and more tokens one behind the other, 63 are a plan each of 32, 16, 8, 4, 2 and 1.
INSTANTIATE_TEST_SUITE_P(Lengths, RunWithLibrary,
                         testing::Values(Case{"qwen3", 1 << 18, std::vector<int64_t>(63, 64)},
                                         Case{"mistral_window", 1 << 18, mixed_lengths(63, 5000)},
                                         Case{"mistral_window", 1024, mixed_lengths(31, 2049)},
                                         Case{"gemma3", 1 << 18, mixed_lengths(15, 300)},
                                         Case{"qwen3_moe", 1 << 18, {1, 64}}));

TEST(RunsWithLibrary, MeasuresNearlyWhatOwnKernelsDo) {
  StandInLog log{Fault::None, {}};
  Asked asked;
  const Ran ours = run("qwen3", asked);
  asked.library = &log;
  const Ran theirs = run("qwen3", asked);
  EXPECT_FALSE(log.plans.empty());
  expect_near(theirs, ours);
}

// A sequence that is cut ends with a piece of any length, one token even.
TEST(RunsWithLibrary, GivesEqualBytesInOtherChunks) {
  StandInLog log{Fault::None, {}};
  const std::vector<int64_t> lengths = {300, 257, 40, 341, 64, 575, 63, 512};
  for (const char* model : {"qwen3", "gemma3"}) {
    Asked asked{4096};
    asked.library = &log;
    const Ran whole = run(model, asked, lengths);
    asked.chunk_tokens = 256;
    const size_t n_plans = log.plans.size();
    const Ran pieces = run(model, asked, lengths);
    EXPECT_TRUE(pieces.seen == whole.seen) << model;
    EXPECT_TRUE(std::any_of(log.plans.begin() + static_cast<ptrdiff_t>(n_plans), log.plans.end(),
                            [](const cuda::AttentionPlan& p) { return p.continued; }));
  }
}

TEST(RunsWithLibrary, GoesOnWithOwnKernelsWhereTheLibraryFails) {
  StandInLog log{Fault::Fails, {}};
  Asked asked;
  const Ran ours = run("qwen3", asked);
  asked.library = &log;
  const Ran theirs = run("qwen3", asked);
  EXPECT_FALSE(log.plans.empty());
  EXPECT_TRUE(theirs.seen == ours.seen);
  ASSERT_FALSE(theirs.notes.empty());
  EXPECT_NE(theirs.notes.front().find("the first call fails: the stand-in has a bad day"), std::string::npos);
}

}  // namespace
}  // namespace kvcal::test
