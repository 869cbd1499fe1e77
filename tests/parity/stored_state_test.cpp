// Recurrent states that are stored in 16 bits: in one call the same as token by token with a rounding in between.
#include <functional>

#include "parity/ops_cases.h"

namespace kvcal::test {
namespace {

constexpr int64_t kTokens = 70, kHeads = 2, kDim = 12, kState = 20;  // more than a chunk, no multiple of a vector

/// Outputs of tokens [first, first + n).
template <class State>
using Rule = std::function<Tensor(Ops&, int64_t first, int64_t n, State& state)>;

template <class State>
struct Run {
  std::vector<double> outputs;
  std::vector<double> state;
};

template <class State>
Run<State> at_once(const Rule<State>& rule, Precision p, DType stored) {
  const auto op = backend(p);
  State state;
  state.stored = stored;
  Run<State> run{read(rule(*op, 0, kTokens, state)), {}};
  run.state = read(state.s);
  return run;
}

template <class State>
void append(Run<State>& run, const Tensor& y) {
  const std::vector<double> outputs = read(y);
  run.outputs.insert(run.outputs.end(), outputs.begin(), outputs.end());
}

/// A call for each token, and the op's own rounding.
template <class State>
Run<State> in_steps(const Rule<State>& rule, Precision p, DType stored) {
  const auto op = backend(p);
  State state;
  state.stored = stored;
  Run<State> run;
  for (int64_t t = 0; t < kTokens; ++t) append(run, rule(*op, t, 1, state));
  run.state = read(state.s);
  return run;
}

/// A call for each token, rounded here in between.
template <class State>
Run<State> rounded_here(const Rule<State>& rule, DType stored) {
  const auto op = backend(Precision::F32);
  State state;
  Run<State> run;
  for (int64_t t = 0; t < kTokens; ++t) {
    append(run, rule(*op, t, 1, state));
    run.state = read(state.s);
    for (double& x : run.state) x = double{stored_as(stored, static_cast<float>(x))};
    const Values rounded = values(state.s.view.shape, DType::F32, run.state);
    state.s = {op->upload(rounded), nullptr};
  }
  return run;
}

template <class State>
void expect_rounded(const Rule<State>& rule) {
  for (const DType stored : {DType::BF16, DType::F16}) {
    SCOPED_TRACE(name_of(stored));
    const Run<State> run = at_once(rule, Precision::F32, stored), expected = rounded_here(rule, stored);
    EXPECT_EQ(run.outputs, expected.outputs);
    EXPECT_EQ(run.state, expected.state);
    EXPECT_NE(run.state, at_once(rule, Precision::F32, DType::F32).state);
    const Run<State> bf16 = at_once(rule, Precision::BF16, stored), steps = in_steps(rule, Precision::BF16, stored);
    EXPECT_EQ(bf16.outputs, steps.outputs);
    EXPECT_EQ(bf16.state, steps.state);
    for (const double x : bf16.state) ASSERT_EQ(double{stored_as(stored, static_cast<float>(x))}, x);
  }
}

Values rows_of(Ops& op, const Shape& shape, uint32_t seed, double sigma = 1) {
  return random_values(shape, op.activation_dtype(), seed, Fill::Normal, sigma);
}

void expect_delta_rounded(bool by_channel) {
  expect_rounded<DeltaState>([&](Ops& op, int64_t first, int64_t n, DeltaState& state) {
    const Values q = rows_of(op, {kTokens, 1, kState}, 1, 0.2), k = rows_of(op, {kTokens, 1, kState}, 2, 0.2),
                 v = rows_of(op, {kTokens, kHeads, kDim}, 3);
    const Shape gates = by_channel ? Shape{kTokens, kHeads, kState} : Shape{kTokens, kHeads};
    std::vector<double> g(static_cast<size_t>(gates.elements())), beta(static_cast<size_t>(kTokens * kHeads), 0.7);
    for (size_t i = 0; i < g.size(); ++i) g[i] = -0.01 * static_cast<double>(i % 7);
    const Values decay = values(gates, DType::F32, g), rate = values({kTokens, kHeads}, DType::F32, beta);
    const Span span{0, n, first};
    DeltaState* const states[] = {&state};
    const auto rows = [&](const Values& x) { return x.tensor().rows(first, n); };
    return op.gated_delta_rule(rows(q), rows(k), rows(v), {rows(decay), rows(rate)}, {&span, 1}, states);
  });
}

TEST(StoredState, OfTheDeltaRule) { expect_delta_rounded(false); }
TEST(StoredState, OfTheDeltaRuleByChannel) { expect_delta_rounded(true); }

TEST(StoredState, OfStateSpaces) {
  expect_rounded<SsmState>([](Ops& op, int64_t first, int64_t n, SsmState& state) {
    const Values x = rows_of(op, {kTokens, kHeads, kDim}, 1), dt = rows_of(op, {kTokens, kHeads}, 2),
                 b = rows_of(op, {kTokens, 1, kState}, 3), c = rows_of(op, {kTokens, 1, kState}, 4);
    const Values a_log = random_values({kHeads}, DType::F32, 5), bias = random_values({kHeads}, DType::F32, 6),
                 d = random_values({kHeads}, DType::F32, 7);
    const Span span{0, n, first};
    SsmState* const states[] = {&state};
    const auto rows = [&](const Values& v) { return v.tensor().rows(first, n); };
    return op.ssd({rows(x), rows(dt), rows(b), rows(c)}, {a_log, bias, d}, {&span, 1}, states);
  });
}

TEST(StoredState, OfSelectiveScans) {
  expect_rounded<SsmState>([](Ops& op, int64_t first, int64_t n, SsmState& state) {
    const Values x = rows_of(op, {kTokens, kDim}, 1), dt = rows_of(op, {kTokens, kDim}, 2),
                 b = rows_of(op, {kTokens, kState}, 3), c = rows_of(op, {kTokens, kState}, 4);
    const Values a_log = random_values({kDim, kState}, DType::F32, 5), bias = random_values({kDim}, DType::F32, 6),
                 d = random_values({kDim}, DType::F32, 7);
    const Span span{0, n, first};
    SsmState* const states[] = {&state};
    const auto rows = [&](const Values& v) { return v.tensor().rows(first, n); };
    return op.selective_scan({rows(x), rows(dt), rows(b), rows(c)}, {a_log, bias, d}, {&span, 1}, states);
  });
}

TEST(StoredState, IsOneFormInACall) {
  const auto op = backend(Precision::F32);
  const Values x = rows_of(*op, {2, kDim}, 1), b = rows_of(*op, {2, kState}, 2),
               a_log = random_values({kDim, kState}, DType::F32, 3), bias = random_values({kDim}, DType::F32, 4);
  const Span spans[] = {{0, 1, 0}, {1, 1, 0}};
  SsmState plain, rounded, impossible;
  rounded.stored = DType::BF16;
  impossible.stored = DType::I8;
  const auto scan = [&](SsmState* first, SsmState* second) {
    SsmState* const states[] = {first, second};
    op->selective_scan({x, x, b, b}, {a_log, bias, bias}, spans, states);
  };
  EXPECT_THROW(scan(&plain, &rounded), std::exception);
  EXPECT_THROW(scan(&rounded, nullptr), std::exception);
  EXPECT_THROW(scan(nullptr, &rounded), std::exception);
  EXPECT_THROW(scan(&impossible, &impossible), std::exception);
}

}  // namespace
}  // namespace kvcal::test
