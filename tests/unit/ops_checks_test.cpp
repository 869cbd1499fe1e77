// Each check of the op contract: the message names the op and what does not fit.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/ops.h"

namespace kvcal {
namespace {

class OpsChecks : public testing::Test {
 protected:
  /// Tensors stay alive in `kept`.
  Tensor make(const Shape& shape, DType dtype = DType::F32) {
    kept.push_back(op->allocate(shape, dtype));
    return kept.back().view;
  }

  void expect(const std::function<void()>& call, const std::vector<std::string>& parts) {
    try {
      call();
      ADD_FAILURE() << "accepted, expected: " << parts[0];
    } catch (const Error& e) {
      for (const std::string& part : parts)
        EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << "'" << e.what() << "' lacks '" << part << "'";
    }
  }

  std::unique_ptr<Ops> op = make_cpu_ops({Precision::F32, 1, true});
  std::vector<Owned> kept;
};

TEST_F(OpsChecks, RowOpsNameBothTensors) {
  const Tensor x = make({3, 8}), w = make({5}), other = make({3, 9}), b16 = make({3, 8}, DType::BF16);
  expect([&] { op->rms_norm(x, w, 1e-6f); }, {"rms_norm", "F32 [5]", "F32 [3, 8]"});
  expect([&] { op->rms_norm(b16, w, 1e-6f); }, {"rms_norm", "BF16 [3, 8]", "activation dtype F32"});
  expect([&] { op->add(x, other); }, {"add", "F32 [3, 8]", "F32 [3, 9]"});
  expect([&] { op->glu(x, other); }, {"glu", "[3, 9]"});
  expect([&] { op->sigmoid_mul(x, make({4, 1})); }, {"sigmoid_mul", "[4, 1]", "[3, 8]"});
  expect([&] { op->columns(x, 6, 3); }, {"columns", "6 to 9", "[3, 8]"});
  const int64_t rows[] = {3};
  expect([&] { op->take_rows(x, rows); }, {"take_rows", "row 3"});
  expect([&] { op->gated_rms_norm(x, other, {w, 1e-6f}); }, {"gated_rms_norm", "[3, 9]"});
}

TEST_F(OpsChecks, WeightsAndIds) {
  const Tensor w = make({4, 8}), ints = make({4, 8}, DType::I32);
  expect([&] { op->load_linear(w, make({5})); }, {"load_linear", "bias F32 [5]", "F32 [4, 8]"});
  expect([&] { op->load_linear(ints); }, {"load_linear", "I32 [4, 8]"});
  expect([&] { op->linear(make({2, 9}), op->load_linear(w)); }, {"linear", "F32 [2, 9]", "[4, 8]"});
  expect([&] { op->linear(make({2, 8}), Linear{}); }, {"linear", "not loaded"});
  expect([&] { op->load_gain(w, Gain::Plain); }, {"load_gain", "rank 1"});
  for (const int32_t id : {-1, 4}) expect([&] { op->embed(w, {&id, 1}); }, {"embed", std::to_string(id), "[4, 8]"});
}

TEST_F(OpsChecks, Rope) {
  const int32_t positions[] = {0, 1};
  expect([&] { op->rope_table(positions, 2, {4, {1.0f}, 1.0f, false, {}}); }, {"rope_table", "1 frequencies"});
  expect([&] { op->rope_table(positions, 2, {4, {1.0f, 1.0f}, 1.0f, false, {0, 1}}); }, {"rope_table", "2 axes"});
  const RopeSpec spec{4, {1.0f, 0.5f}, 1.0f, false, {}};
  const Tensor table = op->rope_table(positions, 2, spec);
  expect([&] { op->rope(make({3, 1, 8}), table, spec); }, {"rope", "[3, 1, 8]", "[2, 2, 2]"});
  expect([&] { op->rope(make({2, 1, 2}), table, spec); }, {"rope", "[2, 1, 2]"});
}

TEST_F(OpsChecks, WeightsAreForTheOpTheyWereLoadedFor) {
  const Linear rounded = op->load_linear(make({5, 8})), in_f32 = op->load_linear_f32(make({5, 8}));
  EXPECT_NO_THROW(op->linear_f32(make({4, 8}), in_f32));
  expect([&] { op->linear_f32(make({4, 8}), rounded); }, {"linear_f32", "not loaded for this op"});
  expect([&] { op->linear(make({4, 8}), in_f32); }, {"linear", "not loaded for this op"});
  expect([&] { op->linear_f32(make({4, 7}), in_f32); }, {"linear_f32", "[4, 7]", "[5, 8]"});
}

TEST_F(OpsChecks, SpansCoverTheRowsOnce) {
  const Tensor x = make({6, 8}), w = make({8, 4});
  ConvState a, b;
  const auto conv = [&](std::vector<Span> spans, std::vector<ConvState*> states) {
    return [&, spans, states] { op->causal_conv(x, {w}, spans, states); };
  };
  expect(conv({{0, 6, 0}}, {}), {"causal_conv", "1 spans", "0 states"});
  expect(conv({{0, 5, 0}}, {&a}), {"cover 5 rows", "[6, 8]"});
  expect(conv({{0, 4, 0}, {3, 3, 0}}, {&a, &b}), {"expected one from row 4"});
  expect(conv({{0, 3, 0}, {3, 3, 0}}, {&a, &a}), {"share one state"});
  expect(conv({{0, 6, 4}}, {&a}), {"position 4", "nothing was kept"});
  expect(conv({{0, 6, 4}}, {nullptr}), {"position 4", "nothing was kept"});
  EXPECT_NO_THROW(conv({{3, 3, 0}, {0, 3, 0}}, {&a, &b})());
  EXPECT_NO_THROW(conv({{0, 6, 3}}, {&a})());
  a.window = op->allocate({3, 9}, DType::F32);
  expect(conv({{0, 6, 3}}, {&a}), {"window F32 [3, 9]", "[3, 8]"});
}

TEST_F(OpsChecks, AttentionContinuesWhereItsRowsEnd) {
  const Tensor q = make({4, 4, 8}), k = make({4, 2, 8}), v = make({4, 2, 6});
  KvRows rows;
  KvRows* const states[] = {&rows};
  const auto attend = [&](int64_t position) {
    return [&, position] {
      const Span span{0, 4, position};
      op->attention(q, k, v, {&span, 1}, states, {1.0f, 0});
    };
  };
  EXPECT_NO_THROW(attend(0)());
  EXPECT_NO_THROW(attend(4)());
  EXPECT_EQ(rows.n_tokens, 8);
  expect(attend(0), {"attention", "position 0", "8 rows"});
  expect(attend(9), {"position 9", "8 rows"});
  const Span span{0, 4, 0};
  expect(
      [&] {
        op->attention(make({4, 3, 8}), k, v, {&span, 1}, states, {1.0f, 0});
      },
      {"q F32 [4, 3, 8]", "k F32 [4, 2, 8]"});
  expect([&] { op->attention(q, k, make({4, 1, 6}), {&span, 1}, states, {1.0f, 0}); }, {"v F32 [4, 1, 6]"});
}

TEST_F(OpsChecks, DeltaRuleAndExperts) {
  const Tensor q = make({4, 2, 8}), v = make({4, 3, 6});
  const Span span{0, 4, 0};
  DeltaState* const none = nullptr;
  expect(
      [&] {
        op->gated_delta_rule(q, q, v, {make({4, 3}), make({4, 3})}, {&span, 1}, {&none, 1});
      },
      {"gated_delta_rule", "v F32 [4, 3, 6]", "k F32 [4, 2, 8]"});
  expect([&] { op->delta_gates(make({4, 3}), make({4, 3}), make({2}), make({3})); }, {"delta_gates", "a_log F32 [2]"});
  expect([&] { op->route(make({4, 3}), {.k = 4, .renormalize = true}); }, {"route", "4 experts"});
  expect([&] { op->route(make({4, 3}, DType::I32), {.k = 1}); }, {"route", "logits I32 [4, 3]", "F32"});
  const Linear up = op->load_linear(make({5, 8})), down = op->load_linear(make({8, 5}));
  const GluWeights experts[] = {{up, up, down}, {up, up, up}};
  const Routing routing{make({4, 1}, DType::I32), make({4, 1})};
  expect([&] { op->experts(make({4, 8}), routing, experts); }, {"expert 1", "[5, 8]"});
  routing.experts.as<int32_t>()[2] = 1;
  expect([&] { op->experts(make({4, 8}), routing, {experts, 1}); }, {"expert 1 chosen of 1"});
}

TEST_F(OpsChecks, Accumulate) {
  const TapShape shape{2, 8, 4, false, TapSums::Moments, 3};
  const TapTables tables = op->tap_tables(shape);
  const Tensor x = make({5, 2, 8});
  const auto refused = [&](const Tensor& t, const std::vector<TapRows>& rows, const std::vector<std::string>& parts) {
    expect([&] { op->accumulate(t, tables, rows); }, parts);
  };
  op->accumulate(x, tables, std::vector<TapRows>{{0, 2, 7, 2, 0, 1}, {2, 3, 0, 0, 5, 4}});
  refused(make({5, 2, 9}), {{0, 5}}, {"counting into tables", "F32 [5, 2, 9]", "2 heads of 8"});
  refused(make({5, 2, 8}, DType::F16), {{0, 5}}, {"F16 [5, 2, 8]", "BF16 or F32"});
  refused(x, {{0, 4}}, {"are 4 of x F32 [5, 2, 8]"});
  refused(x, {{0, 3}, {2, 2}}, {"rows 2 to 4", "expected rows from 3"});
  refused(x, {{0, 5, 0, 3}}, {"in cell 3", "one of 3 cells"});
  refused(x, {{0, 5, -1}}, {"from position -1"});
  refused(x, {{0, 5, 0, 0, -1}}, {"ranks from -1"});
  constexpr int64_t kRanks = (int64_t{1} << kPlaceBits) / 8;  // the last place must stay free
  op->accumulate(x, tables, std::vector<TapRows>{{0, 5, 0, 0, kRanks - 7, 1}});
  refused(x, {{0, 5, 0, 0, kRanks - 5, 1}}, {"more places than the tables can tell apart"});
  refused(x, {{0, 5, 0, 0, 0, kRanks}}, {"in steps of", "more places"});
  TapTables others = tables;
  others.shape.cells = 2;
  expect([&] { op->accumulate(x, others, std::vector<TapRows>{{0, 5}}); }, {"tables U64", "do not fit x"});
  op->accumulate(make({0, 2, 8}), tables, {});
}

TEST_F(OpsChecks, CountStates) {
  const TapTables tables = op->tap_tables({2, 8, 0, false, TapSums::None, 3});
  const Tensor state = make({2, 4, 2}, DType::F32);
  const auto refused = [&](const std::vector<Tensor>& states, const std::vector<TapRows>& rows,
                           const std::vector<std::string>& parts) {
    expect([&] { op->count_states(states, tables, rows); }, parts);
  };
  op->count_states(std::vector<Tensor>{state, state}, tables,
                   std::vector<TapRows>{{0, 1, 63, 2, 63}, {1, 1, 99, 0, 9}});
  op->count_states({}, tables, {});
  refused({state}, {}, {"1 states, 0 descriptions"});
  refused({make({2, 4, 3}, DType::F32)}, {{0, 1}}, {"F32 [2, 4, 3]", "2 heads of 8 numbers"});
  refused({make({2, 4, 2}, DType::BF16)}, {{0, 1}}, {"BF16 [2, 4, 2]", "numbers, F32"});
  refused({state}, {{0, 2}}, {"rows 0 to 2", "expected one"});
  refused({state, state}, {{0, 1}, {0, 1}}, {"expected rows from 1"});
  refused({state}, {{0, 1, 0, 3}}, {"in cell 3"});
  expect([&] { op->accumulate(make({1, 2, 8}), tables, std::vector<TapRows>{{0, 1}}); }, {"tables of states"});
  const TapTables of_keys = op->tap_tables({2, 8, 0, false, TapSums::Energy, 3});
  expect(
      [&] {
        op->count_states(std::vector<Tensor>{state}, of_keys, std::vector<TapRows>{{0, 1}});
      },
      {"tables that are not of states"});
}

TEST_F(OpsChecks, EveryOpTakesAnEmptyBatch) {
  const Tensor x = make({0, 8});
  EXPECT_EQ(op->embed(make({3, 8}), {}).shape, (Shape{0, 8}));
  EXPECT_EQ(op->linear(x, op->load_linear(make({4, 8}))).shape, (Shape{0, 4}));
  EXPECT_EQ(op->columns(x, 2, 3).shape, (Shape{0, 3}));
  EXPECT_EQ(op->take_rows(x, {}).shape, (Shape{0, 8}));
  EXPECT_EQ(op->attention(make({0, 2, 8}), make({0, 1, 8}), make({0, 1, 8}), {}, {}, {1.0f, 0}).shape, (Shape{0, 16}));
  EXPECT_EQ(op->causal_conv(x, {make({8, 4})}, {}, {}).shape, (Shape{0, 8}));
}

TEST(OpsIsa, IsNamed) {
  EXPECT_FALSE(make_cpu_ops({Precision::BF16, 1, false})->isa().empty());
  EXPECT_FALSE(make_cpu_ops({Precision::F32, 1, false})->isa().empty());
}

}  // namespace
}  // namespace kvcal
