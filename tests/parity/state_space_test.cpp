// State-space ops against their recurrences, token by token in double.
#include "parity/ops_cases.h"

namespace kvcal::test {
namespace {

double softplus(double x) { return x > 20.0 ? x : std::log1p(std::exp(x)); }

struct SsmValues {
  Values x, dt, b, c, a_log, dt_bias, d;

  SsmInputs inputs() const { return {x, dt, b, c}; }
  SsmWeights weights() const { return {a_log, dt_bias, d}; }
};

/// What a channel (scan) or a value column of a head (ssd) keeps: n_state values, `stride` apart.
struct Column {
  double* state;
  int64_t n_state, stride;

  /// b, c: of the token. Returns y.
  double step(double x, double step, const double* decay, int64_t decay_stride, const double* b, const double* c,
              double d) const {
    double y = d * x;
    for (int64_t n = 0; n < n_state; ++n) {
      double& s = state[n * stride];
      s = std::exp(step * decay[n * decay_stride]) * s + step * x * b[n];
      y += c[n] * s;
    }
    return y;
  }
};

std::vector<double> decays(const Values& a_log) {
  std::vector<double> a;
  for (const double x : a_log.real) a.push_back(-std::exp(x));
  return a;
}

double at(const Values& v, int64_t i) { return v.real[static_cast<size_t>(i)]; }

// ---------------------------------------------------------------- Mamba-2

SsmValues ssd_values(const SsdCase& c, DType t) {
  SsmValues v{random_values({c.tokens, c.heads, c.head_dim}, t, 1),
              random_values({c.tokens, c.heads}, t, 2),
              random_values({c.tokens, c.groups, c.n_state}, t, 3, Fill::Normal, 0.5),
              random_values({c.tokens, c.groups, c.n_state}, t, 4, Fill::Normal, 0.5),
              random_values({c.heads}, DType::F32, 5),
              random_values({c.heads}, DType::F32, 6, Fill::Normal, 0.5),
              random_values({c.heads}, DType::F32, 7)};
  for (double& a : v.a_log.real) a += c.a_log;
  v.a_log = values({c.heads}, DType::F32, v.a_log.real);
  return v;
}

std::vector<double> recur(const SsdCase& c, const SsmValues& v, std::vector<double>& state) {
  const std::vector<double> a = decays(v.a_log);
  std::vector<double> y;
  state.resize(static_cast<size_t>(c.heads * c.n_state * c.head_dim));
  for (int64_t t = 0; t < c.tokens; ++t)
    for (int64_t h = 0; h < c.heads; ++h) {
      const int64_t group = (t * c.groups + h / (c.heads / c.groups)) * c.n_state;
      const double step = softplus(at(v.dt, t * c.heads + h) + at(v.dt_bias, h));
      for (int64_t p = 0; p < c.head_dim; ++p)
        y.push_back(Column{state.data() + h * c.n_state * c.head_dim + p, c.n_state, c.head_dim}.step(
            at(v.x, (t * c.heads + h) * c.head_dim + p), step, &a[static_cast<size_t>(h)], 0, v.b.real.data() + group,
            v.c.real.data() + group, at(v.d, h)));
    }
  return y;
}

class SsdParity : public testing::TestWithParam<std::tuple<Precision, SsdCase>> {};

TEST_P(SsdParity, EqualsTheRecurrence) {
  const auto& [precision, c] = GetParam();
  const auto op = backend(precision);
  const SsmValues v = ssd_values(c, op->activation_dtype());
  const Span span{0, c.tokens, 0};
  SsmState state;
  SsmState* const states[] = {&state};
  const Tensor y = op->ssd(v.inputs(), v.weights(), {&span, 1}, states);
  ASSERT_EQ(y.shape, v.x.tensor().shape);
  std::vector<double> expected_state;
  // f32 sums over chunks of 64 and n_state, in bf16 on tensor cores of values with 16 bits.
  expect_close("ssd", read(y), recur(c, v, expected_state), one_rounding(precision, 1e-5));
  expect_close("state", read(state.s), expected_state, {1e-5, 1e-5});

  const std::string kept = bytes_of(y);
  op->end_batch();
  SsmState* const none = nullptr;
  EXPECT_TRUE(bytes_of(op->ssd(v.inputs(), v.weights(), {&span, 1}, {&none, 1})) == kept);
}

INSTANTIATE_TEST_SUITE_P(Cases, SsdParity,
                         testing::Combine(testing::Values(Precision::F32, Precision::BF16),
                                          testing::ValuesIn(kSsdCases)));

TEST(SsdParity, PublishedNumbers) {
  const auto op = backend(Precision::F32);
  const Values x = values({2, 1, 2}, DType::F32, {1, -2, .5, 3}), b = values({2, 1, 2}, DType::F32, {.5, 1, -1, 2}),
               c = values({2, 1, 2}, DType::F32, {1, -1, 2, .5}), dt = values({2, 1}, DType::F32, {.2, -.7});
  const Values a_log = values({1}, DType::F32, {.3}), dt_bias = values({1}, DType::F32, {.1}),
               d = values({1}, DType::F32, {.5});
  const Span span{0, 2, 0};
  SsmState* const none = nullptr;
  expect_close("ssd", read(op->ssd({x, dt, b, c}, {a_log, dt_bias, d}, {&span, 1}, {&none, 1})),
               {.0728223778, -.145644756, .741256209, -1.23246422}, {2e-6, 0});
}

// ---------------------------------------------------------------- Mamba-1

SsmValues scan_values(const ScanCase& c, DType t) {
  return {random_values({c.tokens, c.channels}, t, 1),
          random_values({c.tokens, c.channels}, t, 2),
          random_values({c.tokens, c.n_state}, t, 3),
          random_values({c.tokens, c.n_state}, t, 4),
          random_values({c.channels, c.n_state}, DType::F32, 5),
          random_values({c.channels}, DType::F32, 6),
          random_values({c.channels}, DType::F32, 7)};
}

class ScanParity : public testing::TestWithParam<std::tuple<Precision, ScanCase>> {};

TEST_P(ScanParity, EqualsTheRecurrence) {
  const auto& [precision, c] = GetParam();
  const auto op = backend(precision);
  const SsmValues v = scan_values(c, op->activation_dtype());
  const Span span{0, c.tokens, 0};
  SsmState state;
  SsmState* const states[] = {&state};
  const Tensor y = op->selective_scan(v.inputs(), v.weights(), {&span, 1}, states);

  const std::vector<double> a = decays(v.a_log);
  std::vector<double> expected, expected_state(static_cast<size_t>(c.channels * c.n_state));
  for (int64_t t = 0; t < c.tokens; ++t)
    for (int64_t d = 0; d < c.channels; ++d)
      expected.push_back(Column{expected_state.data() + d * c.n_state, c.n_state, 1}.step(
          at(v.x, t * c.channels + d), softplus(at(v.dt, t * c.channels + d) + at(v.dt_bias, d)),
          a.data() + d * c.n_state, 1, v.b.real.data() + t * c.n_state, v.c.real.data() + t * c.n_state, at(v.d, d)));
  expect_close("selective_scan", read(y), expected, one_rounding(precision, 3e-6));
  expect_close("state", read(state.s), expected_state, {3e-6, 3e-6});

  const std::string kept = bytes_of(y);
  op->end_batch();
  SsmState* const none = nullptr;
  EXPECT_TRUE(bytes_of(op->selective_scan(v.inputs(), v.weights(), {&span, 1}, {&none, 1})) == kept);
}

INSTANTIATE_TEST_SUITE_P(Cases, ScanParity,
                         testing::Combine(testing::Values(Precision::F32, Precision::BF16),
                                          testing::ValuesIn(kScanCases)));

TEST(ScanParity, ShapesAreChecked) {
  const auto op = backend(Precision::F32);
  const SsmValues v = scan_values({4, 8, 4}, DType::F32);
  const Span span{0, 4, 0}, later{0, 4, 64};
  SsmState* const none = nullptr;
  SsmInputs in = v.inputs();
  in.dt = v.b;
  EXPECT_THROW(op->selective_scan(in, v.weights(), {&span, 1}, {&none, 1}), std::exception);
  EXPECT_THROW(op->selective_scan(v.inputs(), v.weights(), {&later, 1}, {&none, 1}), std::exception);
}

}  // namespace
}  // namespace kvcal::test
