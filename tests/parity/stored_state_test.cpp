// Recurrent states that are stored: in one call the same as in parts, rounded in between where servers store them.
#include <bit>
#include <functional>
#include <map>

#include "base/json.h"
#include "base/sha256.h"
#include "parity/ops_cases.h"

namespace kvcal::test {
namespace {

constexpr int64_t kTokens = 70, kHeads = 2, kDim = 68, kState = 20;  // more than a chunk and a tile

/// Outputs of tokens [first, first + n).
template <class State>
using Rule = std::function<Tensor(Ops&, int64_t first, int64_t n, State& state)>;

template <class State>
struct Run {
  std::vector<double> outputs;
  std::vector<double> state;
  bool operator==(const Run&) const = default;
};

/// By calls that end after so many tokens each.
template <class State>
Run<State> in_parts(const Rule<State>& rule, Precision p, const StateFormat& stored, const std::vector<int64_t>& ends) {
  const auto op = backend(p);
  State state;
  state.stored = stored;
  Run<State> run;
  int64_t first = 0;
  for (const int64_t end : ends) {
    const std::vector<double> outputs = read(rule(*op, first, end - first, state));
    run.outputs.insert(run.outputs.end(), outputs.begin(), outputs.end());
    first = end;
  }
  run.state = read(state.s);
  return run;
}

std::vector<int64_t> each_token() {
  std::vector<int64_t> ends;
  for (int64_t t = 1; t <= kTokens; ++t) ends.push_back(t);
  return ends;
}

/// The nearest of the numbers with so many bits behind the first, at least 2^least of a unit in the first place; ties
/// to even. In double, from the definition of the formats.
double nearest(double x, int bits, int least) {
  if (x == 0) return x;
  const double step = std::exp2(std::max(std::ilogb(x), least) - bits);
  return std::nearbyint(x / step) * step;
}

double number_of(StateType type, double x) {
  switch (type) {
    case StateType::Bf16:
      return nearest(x, 7, -126);
    case StateType::F16:
      return nearest(x, 10, -14);
    case StateType::E4m3:
      return nearest(x, 3, -6);
    case StateType::E5m2:
      return nearest(x, 2, -14);
    default:
      return std::nearbyint(x);
  }
}

/// Index of the scale of element i of a state [heads, keys, values], or [values, keys].
int64_t scale_of(int64_t i, const Shape& shape, StateScale per) {
  const bool by_head = shape.rank() == 3;
  const int64_t head = by_head ? i / (shape[1] * shape[2]) : 0, value = by_head ? i % shape[2] : i / shape[1];
  switch (per) {
    case StateScale::Tensor:
      return 0;
    case StateScale::Head:
      return head;
    case StateScale::Tile:
      return head * 1000 + value / 64;
    case StateScale::Row:
      return head * 1000 + value;
  }
  return -1;
}

std::vector<double> rounded_here(const std::vector<double>& state, const Shape& shape, const StateFormat& format) {
  std::map<int64_t, double> absmax;
  const auto group = [&](size_t i) { return scale_of(static_cast<int64_t>(i), shape, format.scale); };
  for (size_t i = 0; i < state.size(); ++i) absmax[group(i)] = std::max(absmax[group(i)], std::fabs(state[i]));
  std::vector<double> rounded;
  for (size_t i = 0; i < state.size(); ++i) {
    const float largest = format.type == StateType::E4m3   ? 448.0f
                          : format.type == StateType::E5m2 ? 57344.0f
                          : format.type == StateType::Int8 ? 127.0f
                                                           : 32767.0f;
    const bool has_scale = format.type != StateType::Bf16 && format.type != StateType::F16;
    const float scale = has_scale ? static_cast<float>(absmax[group(i)]) / largest : 1.0f;
    const float quotient = static_cast<float>(state[i]) / scale;
    rounded.push_back(double{static_cast<float>(number_of(format.type, quotient)) * scale});
  }
  return rounded;
}

/// A call for each part between two places, rounded here.
template <class State>
Run<State> rounded_between(const Rule<State>& rule, const StateFormat& format, const std::vector<int64_t>& places) {
  const auto op = backend(Precision::F32);
  State state;
  Run<State> run;
  int64_t first = 0;
  for (const int64_t end : places) {
    const std::vector<double> outputs = read(rule(*op, first, end - first, state));
    run.outputs.insert(run.outputs.end(), outputs.begin(), outputs.end());
    run.state = rounded_here(read(state.s), state.s.view.shape, format);
    state.s = {op->upload(values(state.s.view.shape, DType::F32, run.state)), nullptr};
    first = end;
  }
  if (first == kTokens) return run;
  const std::vector<double> outputs = read(rule(*op, first, kTokens - first, state));
  run.outputs.insert(run.outputs.end(), outputs.begin(), outputs.end());
  run.state = read(state.s);
  return run;
}

struct Stored {
  StateFormat format;
  std::vector<int64_t> places;
};

std::vector<Stored> stored_cases() {
  const auto token = each_token();
  std::vector<int64_t> decoded = {16, 32, 48, 50};
  for (int64_t t = 51; t <= kTokens; ++t) decoded.push_back(t);
  return {{{StateType::Bf16}, token},
          {{StateType::F16}, token},
          {{StateType::E4m3, StateScale::Row}, token},
          {{StateType::E5m2, StateScale::Tile, 7}, {7, 14, 21, 28, 35, 42, 49, 56, 63, 70}},
          {{StateType::Int8, StateScale::Head, 64}, {64}},
          {{StateType::Int16, StateScale::Tensor, 16, 50}, decoded},
          {{StateType::E4m3, StateScale::Tensor, 0, 69}, {69, 70}},
          {{StateType::Int8, StateScale::Row, 1000}, {}}};
}

template <class State>
void expect_rounded(const Rule<State>& rule) {
  const std::vector<int64_t> whole = {kTokens}, parts = {64, kTokens};  // states are computed in chunks of 64
  for (const Stored& c : stored_cases()) {
    SCOPED_TRACE(static_cast<int>(c.format.type));
    const Run<State> run = in_parts(rule, Precision::F32, c.format, whole),
                     as_is = in_parts(rule, Precision::F32, {}, whole);
    EXPECT_TRUE(run == rounded_between(rule, c.format, c.places));
    EXPECT_EQ(run == as_is, c.places.empty());
    const Run<State> bf16 = in_parts(rule, Precision::BF16, c.format, whole);
    EXPECT_TRUE(bf16 == in_parts(rule, Precision::BF16, c.format, parts));
    if (c.format.chunk == 1) {
      EXPECT_TRUE(bf16 == in_parts(rule, Precision::BF16, c.format, each_token()));
    }
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

TEST(StoredState, IsOneFormatInACall) {
  const auto op = backend(Precision::F32);
  const Values x = rows_of(*op, {2, kDim}, 1), b = rows_of(*op, {2, kState}, 2),
               a_log = random_values({kDim, kState}, DType::F32, 3), bias = random_values({kDim}, DType::F32, 4);
  const Span spans[] = {{0, 1, 0}, {1, 1, 0}};
  SsmState plain, rounded, impossible;
  rounded.stored.type = StateType::Bf16;
  impossible.stored = {StateType::Bf16, StateScale::Tensor, -1};
  const auto scan = [&](SsmState* first, SsmState* second) {
    SsmState* const states[] = {first, second};
    op->selective_scan({x, x, b, b}, {a_log, bias, bias}, spans, states);
  };
  EXPECT_THROW(scan(&plain, &rounded), std::exception);
  EXPECT_THROW(scan(&rounded, nullptr), std::exception);
  EXPECT_THROW(scan(nullptr, &rounded), std::exception);
  EXPECT_THROW(scan(&impossible, &impossible), std::exception);
}

/// What becomes of a state [heads, keys, values] when a token passes that changes nothing.
std::vector<double> stored(const std::vector<double>& numbers, const Shape& shape, const StateFormat& format,
                           int64_t position = 0) {
  const auto op = backend(Precision::F32);
  DeltaState state;
  state.s = {op->upload(values(shape, DType::F32, numbers)), nullptr};
  state.stored = format;
  DeltaState* const states[] = {&state};
  const Span span{0, 1, position};
  const auto zeros = [&](const Shape& of) { return random_values(of, DType::F32, 1, Fill::Zeros); };
  const Values q = zeros({1, 1, shape[1]}), v = zeros({1, shape[0], shape[2]}), gate = zeros({1, shape[0]});
  op->gated_delta_rule(q, q, v, {gate, gate}, {&span, 1}, states);
  return read(state.s);
}

std::string digest(const std::vector<double>& numbers) {
  std::string bytes;
  for (const double x : numbers) {
    const float real = static_cast<float>(x) + 0.0f;  // one zero
    bytes.append(reinterpret_cast<const char*>(&real), sizeof real);
  }
  return sha256_hex(bytes);
}

/// tests/reference/state_formats.py, numbers().
std::vector<double> many_numbers(float absmax) {
  std::vector<double> all(65536);
  for (uint32_t code = 0; code < 65536; ++code) {
    const float x = std::bit_cast<float>(code << 16) * 0.77f;
    all[code] = std::fabs(x) <= absmax ? x : std::copysign(absmax, std::bit_cast<float>(code << 16));
  }
  return all;
}

TEST(StoredState, IsRoundedAsMlDtypesDoes) {
  const Json golden = read_json_file(std::string(KVCAL_SOURCE_DIR) + "/tests/parity/golden/state_formats.json");
  const std::pair<const char*, StateType> types[] = {
      {"bf16", StateType::Bf16},     {"f16", StateType::F16},       {"f16_stochastic", StateType::F16Stochastic},
      {"fp8_e4m3", StateType::E4m3}, {"fp8_e5m2", StateType::E5m2}, {"int8", StateType::Int8},
      {"int16", StateType::Int16}};
  for (const auto& [name, type] : types)
    for (const Json& expected : golden.at("formats").at(name)) {
      StateFormat format{type, StateScale::Tensor};
      format.layer = 3;
      const auto absmax = expected.at("absmax").get<float>();
      EXPECT_EQ(digest(stored(many_numbers(absmax), {1, 256, 256}, format, 41)), expected.at("f32"))
          << name << " " << absmax;
    }
}

TEST(StoredState, OfZerosAndOfNumbersBelowAnyScaleIsFinite) {
  std::vector<double> numbers(2 * 4 * 4, 0.0);
  numbers[5] = 1e-44;  // no number that float32 has is so much smaller that it could be its scale
  for (const StateType type : {StateType::E4m3, StateType::E5m2, StateType::Int8, StateType::Int16})
    for (const double x : stored(numbers, {2, 4, 4}, {type, StateScale::Head})) EXPECT_EQ(x, 0);
}

TEST(StoredState, RoundsToEitherNeighbourSoThatTheMeanStays) {
  constexpr float kBelow = 1.0f, kStep = 0x1p-10f;
  StateFormat format{StateType::F16Stochastic};
  for (const double share : {0.0, 0.25, 0.9}) {
    const std::vector<double> x(256 * 256, kBelow + share * kStep);
    double up = 0;
    for (const double y : stored(x, {1, 256, 256}, format)) {
      ASSERT_TRUE(y == kBelow || y == kBelow + kStep) << y;
      up += y > kBelow ? 1 : 0;
    }
    EXPECT_NEAR(up / static_cast<double>(x.size()), share, 4 * 0.5 / 256);
    EXPECT_TRUE(share > 0 || up == 0);
  }
  const std::vector<double> x(64 * 64, kBelow + 0.5 * kStep);
  const std::vector<double> here = stored(x, {1, 64, 64}, format);
  EXPECT_EQ(here, stored(x, {1, 64, 64}, format));
  EXPECT_NE(here, stored(x, {1, 64, 64}, format, 1));  // another position
  format.layer = 1;
  EXPECT_NE(here, stored(x, {1, 64, 64}, format));
}

}  // namespace
}  // namespace kvcal::test
