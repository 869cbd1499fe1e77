// Convolution and gated delta rule against their definitions, token by token in double.
#include "parity/ops_cases.h"

namespace kvcal::test {
namespace {

class ConvParity : public testing::TestWithParam<std::tuple<Precision, ConvCase>> {};

TEST_P(ConvParity, EqualsTheCausalSum) {
  const auto& [precision, c] = GetParam();
  const auto op = backend(precision);
  const Values x = random_values({c.tokens, c.channels}, op->activation_dtype(), 1, c.fill);
  const Values w = random_values({c.channels, c.kernel}, DType::F32, 2),
               bias = random_values({c.channels}, DType::F32, 3);
  const Span span{0, c.tokens, 0};
  ConvState* const none = nullptr;
  const Tensor y = op->causal_conv(x, {w, c.biased ? bias.tensor() : Tensor{}, c.silu}, {&span, 1}, {&none, 1});
  std::vector<double> expected;
  for (int64_t t = 0; t < c.tokens; ++t)
    for (int64_t ch = 0; ch < c.channels; ++ch) {
      double sum = c.biased ? bias.real[static_cast<size_t>(ch)] : 0.0;
      for (int64_t j = 0; j < c.kernel; ++j) {
        const int64_t from = t - (c.kernel - 1) + j;
        if (from >= 0)
          sum += w.real[static_cast<size_t>(ch * c.kernel + j)] * x.real[static_cast<size_t>(from * c.channels + ch)];
      }
      expected.push_back(c.silu ? sum * sigmoid(sum) : sum);
    }
  expect_close("conv", read(y), expected, one_rounding(precision, 1e-6));  // a handful of f32 operations
}

INSTANTIATE_TEST_SUITE_P(Cases, ConvParity,
                         testing::Combine(testing::Values(Precision::F32, Precision::BF16),
                                          testing::ValuesIn(kConvCases)));

struct DeltaInputs {
  Values q, k, v, g, beta;
};

DeltaInputs delta_inputs(const DeltaCase& c, DType dtype) {
  DeltaInputs in{random_values({c.tokens, c.n_key_heads, c.dk}, dtype, 1),
                 random_values({c.tokens, c.n_key_heads, c.dk}, dtype, 2),
                 random_values({c.tokens, c.n_value_heads, c.dv}, dtype, 3),
                 {},
                 {}};
  for (Values* x : {&in.q, &in.k}) {
    std::vector<double> unit = x->real;
    for (size_t r = 0; r < unit.size(); r += static_cast<size_t>(c.dk)) {
      double sum = 0.0;
      for (size_t i = r; i < r + static_cast<size_t>(c.dk); ++i) sum += unit[i] * unit[i];
      for (size_t i = r; i < r + static_cast<size_t>(c.dk); ++i) unit[i] /= std::sqrt(sum);
    }
    *x = values(x->tensor().shape, dtype, unit);
  }
  std::mt19937 random(4);
  std::uniform_real_distribution<double> uniform(0.0, 1.0);
  std::vector<double> g, beta;
  const int64_t rows = c.tokens * c.n_value_heads;
  for (int64_t i = 0; i < rows; ++i) beta.push_back(uniform(random));
  // Strong and weak decay side by side: a sum of g that is large must not cost the small ones their digits.
  for (int64_t i = 0; i < (c.by_channel ? rows * c.dk : rows); ++i)
    g.push_back(c.decay * (i % 3 == 0 ? 1e-3 : 2.0) * uniform(random));
  const Shape by_head{c.tokens, c.n_value_heads};
  in.g = values(c.by_channel ? Shape{c.tokens, c.n_value_heads, c.dk} : by_head, DType::F32, g);
  in.beta = values(by_head, DType::F32, beta);
  return in;
}

/// The recurrence as written in the op's comment. state [n_value_heads][dk][dv] is advanced.
std::vector<double> recur(const DeltaCase& c, const DeltaInputs& in, std::vector<double>& state) {
  std::vector<double> y;
  const auto at = [](const Values& x, int64_t row, int64_t width) { return x.real.data() + row * width; };
  state.resize(static_cast<size_t>(c.n_value_heads * c.dk * c.dv));
  for (int64_t t = 0; t < c.tokens; ++t)
    for (int64_t h = 0; h < c.n_value_heads; ++h) {
      const int64_t kh = h / (c.n_value_heads / c.n_key_heads);
      const double *q = at(in.q, t * c.n_key_heads + kh, c.dk), *k = at(in.k, t * c.n_key_heads + kh, c.dk);
      const double* v = at(in.v, t * c.n_value_heads + h, c.dv);
      double* s = state.data() + h * c.dk * c.dv;
      const auto gate = [&](int64_t channel) {
        const int64_t i = t * c.n_value_heads + h;
        return in.g.real[static_cast<size_t>(c.by_channel ? i * c.dk + channel : i)];
      };
      const double beta = in.beta.real[static_cast<size_t>(t * c.n_value_heads + h)];
      for (int64_t i = 0; i < c.dk * c.dv; ++i) s[i] *= std::exp(gate(i / c.dv));
      for (int64_t j = 0; j < c.dv; ++j) {
        double predicted = 0.0, out = 0.0;
        for (int64_t i = 0; i < c.dk; ++i) predicted += k[i] * s[i * c.dv + j];
        const double e = beta * (v[j] - predicted);
        for (int64_t i = 0; i < c.dk; ++i) s[i * c.dv + j] += k[i] * e;
        for (int64_t i = 0; i < c.dk; ++i) out += q[i] / std::sqrt(double(c.dk)) * s[i * c.dv + j];
        y.push_back(out);
      }
    }
  return y;
}

class DeltaParity : public testing::TestWithParam<std::tuple<Precision, DeltaCase>> {};

TEST_P(DeltaParity, EqualsTheRecurrence) {
  const auto& [precision, c] = GetParam();
  const auto op = backend(precision);
  const DeltaInputs in = delta_inputs(c, op->activation_dtype());
  const Span span{0, c.tokens, 0};
  DeltaState state;
  DeltaState* const states[] = {&state};
  const Tensor y = op->gated_delta_rule(in.q, in.k, in.v, {in.g, in.beta}, {&span, 1}, states);
  std::vector<double> expected_state;
  // f32 sums over chunks of 64 and dk; 2e-6 of the largest value was seen.
  expect_close("delta rule", read(y), recur(c, in, expected_state), one_rounding(precision, 1e-5));
  expect_close("state", read(state.s), expected_state, {1e-5, 1e-5});

  // A sequence that keeps no state starts from zeros too, whatever its memory held before.
  const std::string kept = bytes_of(y);
  op->end_batch();
  DeltaState* const none = nullptr;
  EXPECT_TRUE(bytes_of(op->gated_delta_rule(in.q, in.k, in.v, {in.g, in.beta}, {&span, 1}, {&none, 1})) == kept);
}

INSTANTIATE_TEST_SUITE_P(Cases, DeltaParity,
                         testing::Combine(testing::Values(Precision::F32, Precision::BF16),
                                          testing::ValuesIn(kDeltaCases)));

TEST(DeltaParity, PublishedNumbers) {
  const auto op = backend(Precision::F32);
  const Values a = values({2, 1}, DType::F32, {.2, -.4}), b = values({2, 1}, DType::F32, {.3, 1.5});
  const Values a_log = values({1}, DType::F32, {.5}), dt_bias = values({1}, DType::F32, {-1});
  const Ops::DeltaGates gates = op->delta_gates(a, b, a_log, dt_bias);
  expect_close("g", read(gates.g), {-.611841562, -.363406872}, {1e-7, 0});
  expect_close("beta", read(gates.beta), {.574442517, .817574476}, {2e-7, 0});
  const Values v = values({2, 1, 2}, DType::F32, {3, 1, -2, 4});
  const Span span{0, 2, 0};
  DeltaState state;
  DeltaState* const states[] = {&state};
  const auto run = [&](const std::vector<double>& q, const std::vector<double>& k) {
    state = {};
    const Values qs = values({2, 1, 2}, DType::F32, q), ks = values({2, 1, 2}, DType::F32, k);
    const Tensor qn = op->l2_norm(qs, 1e-6f), kn = op->l2_norm(ks, 1e-6f);
    return read(op->gated_delta_rule(qn, kn, v, gates, {&span, 1}, states));
  };
  expect_close("o", run({1, 2, -1, 1}, {.5, -1, 2, 1}), {-.731145593, -.243715198, -.438170085, -.999194046},
               {2e-6, 0});
  expect_close("S", read(state.s), {-.926654485, 3.10366543, -1.80299487, 1.10527684}, {2e-6, 0});
}

TEST(DeltaParity, GatesOverTheWholeRange) {
  for (const Precision p : {Precision::F32, Precision::BF16}) {
    const auto op = backend(p);
    std::vector<double> x;
    for (double e = -120; e <= 120; e += 0.37) x.push_back(e);
    const auto n = static_cast<int64_t>(x.size());
    const Values a = values({n, 1}, op->activation_dtype(), x), a_log = values({1}, DType::F32, {1.3}),
                 dt_bias = values({1}, DType::F32, {0.25});
    const Ops::DeltaGates gates = op->delta_gates(a, a, a_log, dt_bias);
    std::vector<double> g, beta;
    for (const double v : a.real) {
      const double y = static_cast<float>(v + 0.25);
      g.push_back(-std::exp(a_log.real[0]) * (y > 20 ? y : std::log1p(std::exp(y))));
      beta.push_back(sigmoid(v));
    }
    expect_close("g", read(gates.g), g, {1e-7, 1e-45});
    expect_close("beta", read(gates.beta), beta, {4e-7, 1e-38});  // e^-x overflows beyond 88: beta is zero there
  }
}

TEST(DeltaParity, GatesByChannel) {
  constexpr int64_t kTokens = 9, kHeads = 3;
  for (const Precision p : {Precision::F32, Precision::BF16})
    for (const int64_t dk : {1, 20, 128}) {
      const auto op = backend(p);
      const Values a = random_values({kTokens, kHeads * dk}, op->activation_dtype(), 1, Fill::Outliers),
                   b = random_values({kTokens, kHeads}, op->activation_dtype(), 2),
                   a_log = random_values({kHeads}, DType::F32, 3),
                   dt_bias = random_values({kHeads * dk}, DType::F32, 4);
      const Ops::DeltaGates gates = op->channel_delta_gates(a, b, a_log, dt_bias);
      EXPECT_EQ(gates.g.shape, (Shape{kTokens, kHeads, dk}));
      std::vector<double> g, beta;
      for (size_t i = 0; i < a.real.size(); ++i) {
        const size_t channel = i % static_cast<size_t>(kHeads * dk);
        const double y = a.real[i] + dt_bias.real[channel];
        g.push_back(-std::exp(a_log.real[channel / static_cast<size_t>(dk)]) * (y > 20 ? y : std::log1p(std::exp(y))));
      }
      for (const double x : b.real) beta.push_back(sigmoid(x));
      expect_close("g", read(gates.g), g, {1e-7, 1e-45});
      expect_close("beta", read(gates.beta), beta, {4e-7, 1e-38});
    }
}

}  // namespace
}  // namespace kvcal::test
