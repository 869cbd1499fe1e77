// Recurrent states as they are counted, merged, and kept in files.
#include <gtest/gtest.h>

#include <limits>

#include "stats/merge.h"
#include "stats/packed_tables.h"
#include "stats/state_observer.h"
#include "stats/statistics_checks.h"
#include "stats/statistics_file.h"
#include "stats/statistics_metadata.h"
#include "unit/stats_fixture.h"

namespace kvcal::stats_test {
namespace {

constexpr int64_t kHeads = 2, kKeys = 4, kValues = 3, kSize = kKeys * kValues;

/// small_spec() with states in layers 0 and 2.
ModelSpec hybrid_spec() {
  ModelSpec spec = small_spec();
  for (int layer = 0; layer < 4; ++layer) spec.layers[static_cast<size_t>(layer)].index = layer;
  for (const size_t layer : {size_t{0}, size_t{2}}) {
    LayerSpec& l = spec.layers[layer];
    l.kind = LayerKind::GatedDeltaNet;
    l.conv_bytes = 6;
    l.state_bytes = 6 + kHeads * kSize * 4;
    l.state_heads = kHeads;
    l.state_row = kKeys;
  }
  return spec;
}

using Number = std::function<float(int64_t sequence, int64_t passed, int64_t i)>;

float mixed_number(int64_t sequence, int64_t passed, int64_t i) {
  return mixed_value({0, CacheSite::Key, sequence, passed, i / kSize, i % kSize});
}

Storage state_of(int64_t sequence, int64_t passed, const Number& number) {
  Storage state({kHeads, kKeys, kValues}, DType::F32);
  for (int64_t i = 0; i < kHeads * kSize; ++i) state.tensor().as<float>()[i] = number(sequence, passed, i);
  return state;
}

struct Planned {
  int64_t sequence, n_tokens;
};

std::vector<Planned> sequences_of(const ObservationPlan& plan) {
  std::map<int64_t, int64_t> tokens;
  for (const Segment& s : plan.segments) tokens[s.sequence] += s.n_tokens;
  for (const auto& [sequence, repeats] : plan.repeats)
    for (const Repeat& r : repeats) tokens.erase(r.sequence);
  std::vector<Planned> sequences;
  for (const auto& [sequence, n] : tokens) sequences.push_back({sequence, n});
  return sequences;
}

void show_states(StateCounter& counter, int layer, const ObservationPlan& plan, const Number& number = mixed_number) {
  for (const Planned& s : sequences_of(plan))
    for (int64_t passed = 0; passed < s.n_tokens;) {
      passed = next_counted(passed, s.n_tokens);
      const Storage state = state_of(s.sequence, passed, number);
      counter.count_states(layer, std::vector<PassedState>{{s.sequence, passed, state.tensor()}});
    }
}

std::vector<StateStatistics> states_of(const ObservationPlan& plan, const Number& number = mixed_number) {
  ThreadPool pool(2);
  StateObserver observer(hybrid_spec(), plan, pool, nullptr);
  for (int layer = 0; layer < 4; ++layer) {
    if (layer % 2 == 0) show_states(observer, layer, plan, number);
    observer.layer_done(layer);
  }
  return observer.take();
}

Statistics statistics_of(const ObservationPlan& plan, const Number& number = mixed_number) {
  Statistics statistics = observe_run(small_spec(), plan, mixed_value);
  statistics.states = states_of(plan, number);
  return statistics;
}

TEST(CountedStates, PlacesDoNotDependOnBatches) {
  const auto places = [](int64_t n) {
    std::vector<int64_t> all;
    for (int64_t passed = 0; passed < n;) all.push_back(passed = next_counted(passed, n));
    return all;
  };
  EXPECT_EQ(places(1), (std::vector<int64_t>{1}));
  EXPECT_EQ(places(64), (std::vector<int64_t>{64}));
  EXPECT_EQ(places(65), (std::vector<int64_t>{64, 65}));
  EXPECT_EQ(places(5000), (std::vector<int64_t>{64, 256, 1024, 4096, 5000}));
  EXPECT_EQ(next_counted(100, 5000), 256) << "from where a batch begins";
}

TEST(CountedStates, EveryNumberOnceWithThePlaceOfTheLargest) {
  const ObservationPlan plan = small_plan();  // 300: 64, 256, 300; 5; 70: 64, 70; packed 75: 64, 75; 300 again
  const Number number = [](int64_t sequence, int64_t passed, int64_t i) {
    if (sequence == 3 && passed == 75 && i == 17) return -8.0f;
    if (sequence == 4 && passed == 256 && i == 4) return 2.0f;
    return i == 0 ? 0.0f : 0.5f;
  };
  const std::vector<StateStatistics> states = states_of(plan, number);
  ASSERT_EQ(states.size(), 2u);
  EXPECT_EQ(states[1].layout, (StateLayout{2, "gated_delta_net", kHeads, kKeys, kValues}));
  const SiteStatistics& counts = states[1].counts;
  EXPECT_EQ(counts.n_tokens, 3u + 1 + 2 + 2 + 3);
  ASSERT_EQ(counts.heads.size(), 2u);
  EXPECT_EQ(counts.heads[0].histogram.zeros, 11u);
  EXPECT_EQ(counts.heads[0].histogram.observations(), 11u * kSize);
  EXPECT_EQ(magnitude_of(counts.heads[0].absmax), 2.0f);
  EXPECT_EQ(counts.heads[0].where, (Provenance{2, 0, 255, 255, 0, 4}));
  EXPECT_EQ(magnitude_of(counts.heads[1].absmax), 8.0f);
  EXPECT_EQ(counts.heads[1].where, (Provenance{2, 2, 69, 74, 1, 5})) << "of the prompt that the last token is of";
  std::vector<float> by_position, by_prompt;
  for (const uint16_t code : counts.position_absmax) by_position.push_back(magnitude_of(code));
  for (const uint16_t code : counts.prompt_absmax) by_prompt.push_back(magnitude_of(code));
  EXPECT_EQ(by_position, (std::vector<float>{0, 0, 0, 0.5f, 0, 0, 0.5f, 8, 2, 0.5f}));
  EXPECT_EQ(by_prompt, (std::vector<float>{0.5f, 0.5f, 0.5f, 2, 0, 8})) << "b is inside of a packed sequence";
}

TEST(CountedStates, ARepeatCountsOnceMoreInItsPass) {
  ObservationPlan plan{2, {"a"}, {Segment{0, 1, 0, 0, 0, 0, 70}, Segment{1, 2, 0, 0, 0, 0, 70}}};
  const Number number = [](int64_t, int64_t passed, int64_t) { return static_cast<float>(passed); };
  const std::vector<StateStatistics> twice = states_of(plan, number);
  plan.repeats[0] = {{1, 2}};
  const std::vector<StateStatistics> repeated = states_of(plan, number);
  EXPECT_EQ(repeated[0].counts.n_tokens, 4u);
  EXPECT_EQ(repeated[0].counts.prompt_absmax, twice[0].counts.prompt_absmax);
  EXPECT_EQ(repeated[0].counts.heads[1].histogram.counts, twice[0].counts.heads[1].histogram.counts);
}

TEST(CountedStates, WhatIsMissingTwiceOrElsewhereIsAnError) {
  const ObservationPlan plan{1, {"a"}, {Segment{0, 1, 0, 0, 0, 0, 100}}};
  ThreadPool pool(1);
  const Storage state = state_of(0, 64, mixed_number), small({kKeys, kValues}, DType::F32);
  const auto count = [&](std::vector<std::pair<int64_t, int64_t>> counted, const Storage& what, int layer = 0) {
    return message_of([&] {
      StateObserver observer(hybrid_spec(), plan, pool, nullptr);
      for (const auto& [sequence, passed] : counted)
        observer.count_states(layer, std::vector<PassedState>{{sequence, passed, what.tensor()}});
      observer.layer_done(0);
    });
  };
  EXPECT_EQ(count({{0, 64}, {0, 100}}, state), "");
  EXPECT_NE(count({{0, 64}}, state).find("up to token 64, expected 100"), std::string::npos);
  EXPECT_NE(count({}, state).find("up to token 0, expected 100"), std::string::npos);
  EXPECT_NE(count({{0, 64}, {0, 64}}, state).find("after 64 tokens, expected 100"), std::string::npos);
  EXPECT_NE(count({{0, 100}}, state).find("after 100 tokens, expected 64"), std::string::npos);
  EXPECT_NE(count({{0, 64}, {0, 100}, {0, 100}}, state).find("after 100 tokens"), std::string::npos);
  EXPECT_NE(count({{7, 64}}, state).find("sequence 7 is not planned"), std::string::npos);
  EXPECT_NE(count({{0, 64}}, small).find("expected 24 F32"), std::string::npos);
  EXPECT_NE(count({{0, 64}}, state, 1).find("layer 1 has no state"), std::string::npos);
}

TEST(CountedStates, InfinityAndNanAreErrorsWithTheirPlace) {
  const ObservationPlan plan = small_plan();
  const auto message = [&](float bad) {
    return message_of([&] {
      states_of(plan, [&](int64_t sequence, int64_t passed, int64_t i) {
        return sequence == 3 && passed == 75 && i == 13 ? bad : 1.0f;
      });
    });
  };
  EXPECT_NE(message(std::numeric_limits<float>::quiet_NaN()).find("head 1: NaN in prompt 'c' after token 69 (pass 2"),
            std::string::npos);
  EXPECT_NE(message(-std::numeric_limits<float>::infinity()).find("infinity in prompt 'c'"), std::string::npos);
  EXPECT_NE(message(3.4e38f).find("infinity"), std::string::npos) << "it is one in bf16";
}

TEST(CountedStates, AFileKeepsThemAndSaysSoInItsVersion) {
  const Statistics with = statistics_of(small_plan()), without = observe_run(small_spec(), small_plan(), mixed_value);
  EXPECT_EQ(version_of(with), "1.5");
  EXPECT_EQ(version_of(without), "1.4") << "the bytes of a model without states stay";
  EXPECT_EQ(file_bytes(without).find("states"), std::string::npos);
  const TemporaryPath path;
  write_statistics(path, with, Existing::Refuse);
  const Statistics read = read_statistics(path);
  ASSERT_EQ(read.states.size(), 2u);
  EXPECT_EQ(read.states[1].layout, with.states[1].layout);
  EXPECT_TRUE(file_bytes(read) == file_bytes(with));
}

// Each entry is read whole: what a file of a megabyte lists a hundred thousand times would fill the memory.
TEST(CountedStates, MetadataListsALayerOnceAndKindsThatThereAre) {
  const auto message = [](const std::function<void(Json&)>& change) {
    Json json = parse_json(metadata_of(statistics_of(small_plan())));
    change(json["states"]);
    return message_of([&] { parse_metadata(json.dump()); });
  };
  EXPECT_EQ(message([](Json&) {}), "");
  EXPECT_NE(message([](Json& states) { states.push_back(states[1]); }).find("expected ascending layers"),
            std::string::npos);
  EXPECT_NE(message([](Json& states) { std::swap(states[0], states[1]); }).find("ascending"), std::string::npos);
  EXPECT_NE(message([](Json& states) { states[0]["kind"] = "\x1b[31mred\n"; }).find("which no recurrent layer is of"),
            std::string::npos);
}

TEST(CountedStates, MergedPartsAreTheWhole) {
  const std::string whole = file_bytes(statistics_of(small_plan()));
  const Statistics a = statistics_of(part_of(small_plan(), {0, 3})),
                   b = statistics_of(part_of(small_plan(), {1, 2, 4})),
                   nothing = statistics_of(part_of(small_plan(), {}));
  EXPECT_TRUE(file_bytes(merge(a, b)) == whole);
  EXPECT_TRUE(file_bytes(merge(b, a)) == whole);
  EXPECT_TRUE(file_bytes(merge(merge(a, nothing), b)) == whole);
  EXPECT_TRUE(file_bytes(merge(a, unpacked_tables(packed_tables(b), a))) == whole);
  Statistics old = b;
  old.states.clear();  // from a file that has none
  EXPECT_TRUE(merge(a, old).states.empty());
  old = b;
  old.states[0].layout.kind = "mamba2";
  EXPECT_NE(message_of([&] { merge(a, old); }).find("different recurrent states"), std::string::npos);
}

TEST(CountedStates, ARunGoesOnWhereItStopped) {
  const ObservationPlan plan = small_plan();
  ThreadPool pool(1);
  StateObserver first(hybrid_spec(), plan, pool, nullptr), second(hybrid_spec(), plan, pool, nullptr);
  show_states(first, 0, plan);
  first.layer_done(0);
  std::vector<StateStatistics> done = first.lend_finished();
  ASSERT_EQ(done.size(), 1u);
  StateObserver other(hybrid_spec(), part_of(plan, {0}), pool, nullptr);
  EXPECT_NE(message_of([&] { other.restore(done); }).find("has 11 states, expected 3"), std::string::npos);
  second.restore(std::move(done));
  show_states(second, 2, plan);
  second.layer_done(2);
  Statistics statistics = observe_run(small_spec(), plan, mixed_value);
  statistics.states = second.take();
  EXPECT_TRUE(file_bytes(statistics) == file_bytes(statistics_of(plan)));
}

TEST(CountedStates, ContradictionsAreRefused) {
  const auto message = [](const std::function<void(StateStatistics&)>& change) {
    Statistics statistics = statistics_of(small_plan());
    change(statistics.states[1]);
    return message_of([&] { check_statistics(statistics); });
  };
  EXPECT_EQ(message([](StateStatistics&) {}), "");
  EXPECT_NE(message([](StateStatistics& s) { ++s.counts.n_tokens; }), "");
  EXPECT_NE(message([](StateStatistics& s) { ++s.counts.heads[0].histogram.zeros; }), "");
  EXPECT_NE(message([](StateStatistics& s) { s.counts.heads[0].histogram.counts.front().second = 0; }), "");
  EXPECT_NE(message([](StateStatistics& s) { ++s.counts.heads[0].absmax; }), "");
  EXPECT_NE(message([](StateStatistics& s) { s.counts.heads[1].where.channel = kSize; }), "");
  EXPECT_NE(message([](StateStatistics& s) { s.counts.heads[1].where.prompt = 3; }), "");
  EXPECT_NE(message([](StateStatistics& s) { s.counts.position_absmax.clear(); }), "");
  EXPECT_NE(message([](StateStatistics& s) { s.counts.position_absmax[0] = 0x7F00; }), "");
  EXPECT_NE(message([](StateStatistics& s) { s.counts.prompt_absmax.pop_back(); }), "");
  EXPECT_NE(message([](StateStatistics& s) { s.layout.layer = 0; }), "");
}

}  // namespace
}  // namespace kvcal::stats_test
