// Recurrent states as they are counted, against the framework's own cache (reference/make_state_count_goldens.py); and
// what must not matter to them.
#include <gtest/gtest.h>

#include <algorithm>

#include "arch/golden.h"
#include "base/read_file.h"
#include "harness/loaded_model.h"
#include "harness/recording_tap.h"
#include "solve/error_model.h"
#include "stats/merge.h"
#include "stats/observer.h"

namespace kvcal {
namespace {

constexpr double kMostApart = 2e-3;  // share of a head's numbers that may lie in another octave than the framework's

Json golden_json() {
  const auto path = std::filesystem::path(KVCAL_SOURCE_DIR) / "tests/arch/state_counts.json";
  return parse_json(read_file(path, size_t{1} << 20));
}

struct Asked {
  int64_t chunk = 4096;
  int threads = 1;
  Precision precision = Precision::F32;
};

std::vector<PromptTokens> prompts_of(int64_t vocab, const std::vector<int64_t>& lengths) {
  std::vector<PromptTokens> prompts;
  for (const int64_t n : lengths) {
    prompts.push_back({std::to_string(prompts.size()), {}, 1});
    for (int64_t i = 0; i < n; ++i) prompts.back().ids.push_back(static_cast<int32_t>((i * i + 3 * i) % vocab));
  }
  return prompts;
}

/// Of the sequences in this order, among all that are planned.
Statistics counted(const std::string& name, const std::vector<int64_t>& lengths, const std::vector<int64_t>& order,
                   const Asked& asked) {
  LoadedModel m(Golden(name).folder, {asked.precision, asked.threads, true});
  const std::vector<PromptTokens> prompts = prompts_of(m.model->spec().vocab, lengths);
  std::vector<std::string> ids;
  for (const PromptTokens& p : prompts) ids.push_back(p.id);
  std::vector<Sequence> sequences;
  for (const int64_t i : order) {
    const int64_t n = lengths[static_cast<size_t>(i)];
    sequences.push_back({i, 1, {{i, 0, n}}, n});
  }
  ThreadPool pool(asked.threads);
  Observer observer(m.model->spec(), {1, ids, segments_of(sequences)}, pool);
  Runner(*m.model, *m.ops, m.weights, asked.chunk).run({{&sequences, &observer, Until::LastKv, nullptr}}, prompts);
  return observer.take({});
}

uint64_t n_in_octave(const MagnitudeHistogram& h, size_t octave) {
  uint64_t n = octave == 0 ? h.zeros : 0;
  for (const auto& [code, count] : h.counts) n += code >> 7 == static_cast<int>(octave) ? count : 0;
  return n;
}

class CountedStates : public testing::TestWithParam<std::string> {};

TEST_P(CountedStates, AreThoseOfTheFramework) {
  const Json golden = golden_json(), &cases = golden["cases"];
  const auto of_case = std::ranges::find(cases, GetParam(), [](const Json& c) { return c["case"].get<std::string>(); });
  ASSERT_NE(of_case, cases.end());
  const Statistics statistics = counted(GetParam(), {golden["tokens"].get<int64_t>()}, {0}, {});
  const Json& layers = (*of_case)["layers"];
  ASSERT_EQ(statistics.states.size(), layers.size());
  for (size_t l = 0; l < layers.size(); ++l) {
    const StateStatistics& state = statistics.states[l];
    SCOPED_TRACE("layer " + std::to_string(state.layout.layer));
    EXPECT_EQ(state.layout.layer, layers[l]["layer"].get<int>());
    EXPECT_EQ(state.counts.n_tokens, golden["counted"].size());
    ASSERT_EQ(state.counts.heads.size(), layers[l]["absmax"].size());
    for (size_t h = 0; h < state.counts.heads.size(); ++h) {
      const HeadStatistics& head = state.counts.heads[h];
      EXPECT_NEAR(head.absmax, layers[l]["absmax"][h].get<int>(), 1) << "head " << h;
      const Json& octaves = layers[l]["octaves"][h];
      const auto first = octaves[0].get<size_t>();
      double apart = 0;
      for (size_t o = 0; o < 255; ++o) {
        const bool has = o >= first && o - first + 1 < octaves.size();
        const double expected = has ? octaves[o - first + 1].get<double>() : 0;
        apart += std::abs(expected - static_cast<double>(n_in_octave(head.histogram, o)));
      }
      const float range = absmax_of(state.counts) / 448;
      const NumberFormat& e4m3 = number_format("fp8_e4m3");
      const auto expect_error = [&](const char* member, float scale) {
        const double expected = layers[l][member][h].get<double>();
        EXPECT_NEAR(error_of(head.histogram, e4m3, scale).error, expected, 0.01 * expected) << member << ", head " << h;
      };
      expect_error("e4m3_at_one", 1);
      expect_error("e4m3_at_range", range);
      EXPECT_LE(apart, 2 + 2 * kMostApart * static_cast<double>(head.histogram.observations())) << "head " << h;
    }
    // Each place is in a bucket of its own.
    const std::vector<uint16_t>& by_position = state.counts.position_absmax;
    std::vector<uint16_t> seen;
    std::ranges::copy_if(by_position, std::back_inserter(seen), [](uint16_t code) { return code != 0; });
    ASSERT_EQ(seen.size(), layers[l]["by_state"].size());
    for (size_t i = 0; i < seen.size(); ++i) EXPECT_NEAR(seen[i], layers[l]["by_state"][i].get<int>(), 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, CountedStates,
                         testing::Values("qwen3_next", "kimi_linear", "jamba", "bamba", "minimax", "falcon_h1"),
                         [](const auto& param) { return param.param; });

void expect_same(const Statistics& a, const Statistics& b) {
  ASSERT_EQ(a.states.size(), b.states.size());
  for (size_t i = 0; i < a.states.size(); ++i) {
    SCOPED_TRACE("layer " + std::to_string(a.states[i].layout.layer));
    const SiteStatistics &x = a.states[i].counts, &y = b.states[i].counts;
    EXPECT_EQ(a.states[i].layout, b.states[i].layout);
    EXPECT_EQ(x.n_tokens, y.n_tokens);
    EXPECT_EQ(x.position_absmax, y.position_absmax);
    EXPECT_EQ(x.prompt_absmax, y.prompt_absmax);
    for (size_t h = 0; h < x.heads.size(); ++h) {
      EXPECT_EQ(x.heads[h].histogram.counts, y.heads[h].histogram.counts) << "head " << h;
      EXPECT_EQ(x.heads[h].histogram.zeros, y.heads[h].histogram.zeros) << "head " << h;
      EXPECT_EQ(x.heads[h].where, y.heads[h].where) << "head " << h;
    }
  }
}

/// Counts nothing, but wants to.
class Nobody final : public StateCounter {
 public:
  void count_states(int, std::span<const PassedState> states) override { n += static_cast<int64_t>(states.size()); }
  int64_t n = 0;
};

class CountingTap final : public KvTap {
 public:
  Tensor query(int cache, const Tensor& q, const Batch& b) override { return inner.query(cache, q, b); }
  Tensor key(int cache, const Tensor& k, const Batch& b) override { return inner.key(cache, k, b); }
  Tensor value(int cache, const Tensor& v, const Batch& b) override { return inner.value(cache, v, b); }
  Tensor latent(int cache, const Tensor& x, const Batch& b) override { return inner.latent(cache, x, b); }
  StateCounter* state_counter() override { return &counter; }
  void layer_done(int layer) override { inner.layer_done(layer); }
  RecordingTap inner;
  Nobody counter;
};

std::vector<std::string> hybrids() {
  std::vector<std::string> names;
  for (const std::string& name : golden_cases()) {
    const LoadedModel m(Golden(name).folder, {Precision::F32, 1, false});
    if (std::ranges::any_of(m.model->spec().layers, &LayerSpec::has_long_state)) names.push_back(name);
  }
  return names;
}

TEST(StateCounts, NothingElseMatters) {
  const std::vector<int64_t> lengths = {1, 63, 65, 257, 700};
  for (const std::string& name : hybrids())
    for (const Precision precision : {Precision::BF16, Precision::F32}) {
      SCOPED_TRACE(name + (precision == Precision::F32 ? " f32" : " bf16"));
      const Statistics base = counted(name, lengths, {0, 1, 2, 3, 4}, {4096, 1, precision});
      EXPECT_FALSE(base.states.empty());
      expect_same(base, counted(name, lengths, {0, 1, 2, 3, 4}, {256, 3, precision}));
      expect_same(base, counted(name, lengths, {4, 2, 0, 3, 1}, {512, 2, precision}));
      const Statistics shards = merge(counted(name, lengths, {3, 1}, {512, 1, precision}),
                                      counted(name, lengths, {0, 2, 4}, {4096, 2, precision}));
      expect_same(base, shards);
    }
}

TEST(StateCounts, EveryLayerWithAStateIsCountedAndNoKeyChanges) {
  for (const std::string& name : hybrids()) {
    SCOPED_TRACE(name);
    LoadedModel m(Golden(name).folder, {Precision::BF16, 2, true});
    const ModelSpec& spec = m.model->spec();
    const auto prompts = prompts_of(spec.vocab, {300, 40});
    const std::vector<Sequence> sequences = {{0, 1, {{0, 0, 300}}, 300}, {1, 1, {{1, 0, 40}}, 40}};
    RecordingTap alone;
    CountingTap counting;
    Runner(*m.model, *m.ops, m.weights, 4096).run({{&sequences, &alone, Until::LastKv, nullptr}}, prompts);
    Runner(*m.model, *m.ops, m.weights, 4096).run({{&sequences, &counting, Until::LastKv, nullptr}}, prompts);
    ASSERT_EQ(alone.seen.size(), counting.inner.seen.size());
    for (const auto& [key, recorded] : alone.seen)
      EXPECT_TRUE(recorded.bytes == counting.inner.seen.at(key).bytes) << "cache " << std::get<1>(key);
    const int64_t n_layers = std::ranges::count_if(spec.layers, &LayerSpec::has_long_state);
    EXPECT_EQ(counting.counter.n, n_layers * (3 + 1));
    EXPECT_EQ(static_cast<int64_t>(state_layouts(spec).size()), n_layers);
  }
}

}  // namespace
}  // namespace kvcal
