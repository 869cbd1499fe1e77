// What must not matter, for every architecture: chunking, the order and company of sequences, stale memory, threads,
// one token at a time. Bytes where a block promises bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "arch/golden.h"
#include "harness/compare.h"
#include "harness/loaded_model.h"
#include "harness/recording_tap.h"
#include "harness/tolerances.h"

namespace kvcal {
namespace {

constexpr int64_t kLengths[] = {1, 63, 65, 257, 700};

// Tokens that no two sequences share in order: a plain congruence is enough.
std::vector<int32_t> tokens(int64_t n, int64_t vocab, uint32_t seed) {
  std::vector<int32_t> ids;
  uint32_t x = seed * 2654435761u + 12345u;
  for (int64_t i = 0; i < n; ++i) {
    x = x * 1664525u + 1013904223u;
    ids.push_back(static_cast<int32_t>((x >> 8) % static_cast<uint32_t>(vocab)));
  }
  return ids;
}

class IsolationTest : public ::testing::TestWithParam<std::tuple<std::string, Precision>> {
 protected:
  std::filesystem::path folder() const { return Golden(std::get<0>(GetParam())).folder; }
  Precision precision() const { return std::get<1>(GetParam()); }
  double step_bound() const { return precision() == Precision::F32 ? tolerance::kF32Steps : tolerance::kBf16Steps; }

  // Keys and values, or latent rows, and queries of every cache; and the queries of layers that share one.
  size_t n_sites() const {
    const LoadedModel m(folder(), {precision(), 1, false});
    const ModelSpec& spec = m.model->spec();
    size_t n = 0;
    for (const KvLayout& c : spec.caches)
      n += (c.latent_dim > 0 ? 2 : 3) + static_cast<size_t>(spec.n_sharing(c.cache));
    return n;
  }

  // The five prompts, each its own sequence with its index as id, in the given order.
  std::map<RecordingTap::Key, Recorded> run(const std::vector<int64_t>& order, int64_t chunk, int threads, bool poison,
                                            bool warmup = false) {
    LoadedModel m(folder(), {precision(), threads, poison});
    const ModelSpec& spec = m.model->spec();
    std::vector<PromptTokens> prompts;
    for (size_t i = 0; i < std::size(kLengths); ++i)
      prompts.push_back({std::to_string(i), tokens(kLengths[i], spec.vocab, static_cast<uint32_t>(i)), 1});
    const auto sequence = [&](int64_t p, int64_t id) {
      const int64_t n = kLengths[static_cast<size_t>(p)];
      return Sequence{id, 1, {{p, 0, n}}, n};
    };
    std::vector<Sequence> sequences, discarded;
    for (const int64_t p : order) sequences.push_back(sequence(p, p));
    for (int64_t p = 4; p >= 0 && warmup; --p) discarded.push_back(sequence(p, 100 + p));
    RecordingTap tap;
    NoTap away;
    Runner runner(*m.model, *m.ops, m.weights, chunk);
    runner.run({{&discarded, &away, Until::LastKv, nullptr}, {&sequences, &tap, Until::LastKv, nullptr}}, prompts);
    return std::move(tap.seen);
  }

  static void expect_same(const std::map<RecordingTap::Key, Recorded>& a,
                          const std::map<RecordingTap::Key, Recorded>& b) {
    for (const auto& [key, recorded] : a) {
      const auto other = b.find(key);
      if (other == b.end()) continue;
      EXPECT_TRUE(recorded.bytes == other->second.bytes)
          << "sequence " << std::get<0>(key) << ", cache " << std::get<1>(key) << ", site "
          << static_cast<int>(std::get<2>(key)) << ": relative RMS "
          << compare(recorded.values, other->second.values).relative_rms;
    }
  }
};

TEST_P(IsolationTest, bytes_do_not_depend_on_chunks_order_company_memory_or_threads) {
  const auto base = run({0, 1, 2, 3, 4}, 4096, 1, false);
  EXPECT_EQ(base.size(), n_sites() * std::size(kLengths));
  {
    SCOPED_TRACE("chunks of 256 tokens");
    expect_same(base, run({0, 1, 2, 3, 4}, 256, 1, false));
  }
  {
    SCOPED_TRACE("reversed order, 512 tokens, 2 threads");
    expect_same(base, run({4, 3, 2, 1, 0}, 512, 2, false));
  }
  {
    SCOPED_TRACE("3 threads, poisoned memory, after a warm-up");
    expect_same(base, run({2, 4, 0, 3, 1}, 256, 3, true, true));
  }
  for (int64_t p = 0; p < 5; ++p) {
    SCOPED_TRACE("sequence alone: " + std::to_string(p));
    const auto alone = run({p}, 4096, 2, true);
    EXPECT_FALSE(alone.empty());
    expect_same(alone, base);
  }
}

TEST_P(IsolationTest, token_by_token_and_unaligned_chunks_equal_one_shot) {
  LoadedModel m(folder(), {precision(), 2, true});
  Generator generator(*m.model, *m.ops, m.weights, 4096);
  const int64_t n = 150;
  const std::vector<int32_t> ids = tokens(n, m.model->spec().vocab, 7);
  RecordingTap whole, single, odd;
  const auto expected = generator.last_logits({"", ids}, {n}, whole);
  const auto by_token = generator.last_logits({"", ids}, std::vector<int64_t>(static_cast<size_t>(n), 1), single);
  const auto by_chunk = generator.last_logits({"", ids}, {100, 1, 49}, odd);
  EXPECT_TRUE(close(by_token, expected, step_bound()));
  EXPECT_TRUE(close(by_chunk, expected, step_bound()));
  for (const auto& [key, recorded] : whole.seen) {
    EXPECT_TRUE(close(single.seen[key].values, recorded.values, step_bound()))
        << "token by token, cache " << std::get<1>(key);
    EXPECT_TRUE(close(odd.seen[key].values, recorded.values, step_bound())) << "unaligned, cache " << std::get<1>(key);
  }
}

std::string case_name(const ::testing::TestParamInfo<std::tuple<std::string, Precision>>& info) {
  return std::get<0>(info.param) + (std::get<1>(info.param) == Precision::F32 ? "_f32" : "_bf16");
}

INSTANTIATE_TEST_SUITE_P(Golden, IsolationTest,
                         ::testing::Combine(::testing::ValuesIn(golden_cases()),
                                            ::testing::Values(Precision::F32, Precision::BF16)),
                         case_name);

}  // namespace
}  // namespace kvcal
