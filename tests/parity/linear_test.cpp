// linear against a sum in double.
#include "parity/ops_cases.h"

namespace kvcal::test {
namespace {

class LinearParity : public testing::TestWithParam<std::tuple<Precision, LinearCase>> {};

struct LinearInputs {
  Values x, w, b;
};

LinearInputs inputs_of(const LinearCase& c, DType activation, DType weight) {
  return {random_values({c.rows, c.in}, activation, 1, c.fill), random_values({c.out, c.in}, weight, 2),
          random_values({c.out}, DType::F32, 3)};
}

void expect_products(const LinearCase& c, const LinearInputs& in, const Tensor& y) {
  ASSERT_EQ(y.shape, (Shape{c.rows, c.out}));
  const auto& [x, w, b] = in;
  const std::vector<double> actual = read(y);
  for (int64_t t = 0; t < c.rows; ++t) {
    for (int64_t o = 0; o < c.out; ++o) {
      double sum = c.bias ? b.real[static_cast<size_t>(o)] : 0.0, size = std::fabs(sum);
      for (int64_t i = 0; i < c.in; ++i) {
        const double product = x.real[static_cast<size_t>(t * c.in + i)] * w.real[static_cast<size_t>(o * c.in + i)];
        sum += product;
        size += std::fabs(product);
      }
      // f32 accumulation errs by sqrt(in) ulps of the size of the terms in practice; then one rounding.
      const double bound = 0x1p-23 * std::sqrt(static_cast<double>(c.in)) * size +
                           (y.dtype == DType::BF16 ? 0x1p-8 : 0x1p-24) * std::fabs(sum) + 1e-37;
      ASSERT_NEAR(actual[static_cast<size_t>(t * c.out + o)], sum, bound) << "row " << t << ", column " << o;
    }
  }
}

TEST_P(LinearParity, EqualsTheSumOfProducts) {
  const auto& [precision, c] = GetParam();
  const auto op = backend(precision);
  const LinearInputs in = inputs_of(c, op->activation_dtype(), op->activation_dtype());
  const Tensor y = op->linear(in.x, op->load_linear(in.w, c.bias ? in.b.tensor() : Tensor{}));
  ASSERT_EQ(y.dtype, op->activation_dtype());
  expect_products(c, in, y);
}

TEST_P(LinearParity, KeepsTheSumInF32) {
  const auto& [precision, c] = GetParam();
  for (const DType weight : {DType::BF16, DType::F32}) {
    SCOPED_TRACE(name_of(weight));
    const auto op = backend(precision);
    const LinearInputs in = inputs_of(c, op->activation_dtype(), weight);
    const Tensor y = op->linear_f32(in.x, op->load_linear_f32(in.w, c.bias ? in.b.tensor() : Tensor{}));
    ASSERT_EQ(y.dtype, DType::F32);
    expect_products(c, in, y);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, LinearParity,
                         testing::Combine(testing::Values(Precision::F32, Precision::BF16),
                                          testing::ValuesIn(kLinearCases)));

struct HeadsCase {
  int64_t tokens, heads, in, out;
};
constexpr HeadsCase kHeadsCases[] = {{1, 1, 8, 8},    {5, 3, 7, 9},      {65, 4, 64, 40}, {129, 2, 128, 136},
                                     {64, 5, 16, 64}, {130, 3, 200, 24}, {0, 2, 8, 8}};

TEST(LinearParity, EachHeadHasItsOwnWeight) {
  for (const Precision p : {Precision::F32, Precision::BF16})
    for (const HeadsCase& c : kHeadsCases)
      for (const bool biased : {false, true}) {
        SCOPED_TRACE(numbers({c.tokens, c.heads, c.in, c.out}));
        const auto op = backend(p);
        const DType t = op->activation_dtype();
        const Values x = random_values({c.tokens, c.heads, c.in}, t, 1),
                     w = random_values({c.heads, c.out, c.in}, t, 2),
                     bias = random_values({c.heads, c.out}, DType::F32, 3);
        std::vector<Linear> heads;
        std::vector<double> expected(static_cast<size_t>(c.tokens * c.heads * c.out));
        for (int64_t h = 0; h < c.heads; ++h) {
          heads.push_back(op->load_linear(w.tensor().rows(h, 1).reshaped({c.out, c.in}),
                                          biased ? bias.tensor().rows(h, 1).reshaped({c.out}) : Tensor{}));
          for (int64_t r = 0; r < c.tokens; ++r)
            for (int64_t o = 0; o < c.out; ++o) {
              double& sum = expected[static_cast<size_t>((r * c.heads + h) * c.out + o)];
              if (biased) sum = bias.real[static_cast<size_t>(h * c.out + o)];
              for (int64_t i = 0; i < c.in; ++i)
                sum += x.real[static_cast<size_t>((r * c.heads + h) * c.in + i)] *
                       w.real[static_cast<size_t>((h * c.out + o) * c.in + i)];
            }
        }
        const Tensor y = op->linear_per_head(x, heads);
        EXPECT_EQ(y.shape, (Shape{c.tokens, c.heads, c.out}));
        expect_close("linear_per_head", read(y), expected, one_rounding(p, 2e-6));
      }
}

TEST(LinearParity, KeepsTheLeadingDimensions) {
  const auto op = backend(Precision::F32);
  const Values x = random_values({3, 5, 16}, DType::F32, 1), w = random_values({4, 16}, DType::F32, 2);
  EXPECT_EQ(op->linear(x, op->load_linear(w)).shape, (Shape{3, 5, 4}));
}

TEST(LinearParity, ReadsWeightsOfOtherTypesAndUnaligned) {
  std::vector<double> w64(6 * 8);
  for (size_t i = 0; i < w64.size(); ++i) w64[i] = std::sin(static_cast<double>(i));
  std::vector<char> bytes(w64.size() * sizeof(float) + 1);
  for (size_t i = 0; i < w64.size(); ++i) {
    const auto f = static_cast<float>(w64[i]);
    std::memcpy(bytes.data() + 1 + i * sizeof(float), &f, sizeof(f));
  }
  for (const Precision p : {Precision::F32, Precision::BF16}) {
    const auto op = backend(p);
    const Values x = random_values({2, 8}, op->activation_dtype(), 1);
    const std::string expected = bytes_of(op->linear(x, op->load_linear({w64.data(), {6, 8}, DType::F64})));
    EXPECT_EQ(bytes_of(op->linear(x, op->load_linear({bytes.data() + 1, {6, 8}, DType::F32}))), expected);
  }
}

TEST(LinearParity, NonFiniteInputsStayInTheirRow) {
  for (const Precision p : {Precision::F32, Precision::BF16}) {
    const auto op = backend(p);
    Values x = random_values({3, 40}, op->activation_dtype(), 1);
    const Values w = random_values({24, 40}, op->activation_dtype(), 2);
    const double inf = std::numeric_limits<double>::infinity();
    x.real[40 + 7] = std::nan("");
    x.real[80 + 9] = inf;
    x = values({3, 40}, op->activation_dtype(), x.real);
    const std::vector<double> y = read(op->linear(x, op->load_linear(w)));
    for (size_t i = 0; i < 24; ++i) {
      EXPECT_TRUE(std::isfinite(y[i]));
      EXPECT_TRUE(std::isnan(y[24 + i]));
      EXPECT_TRUE(std::isinf(y[48 + i])) << y[48 + i];
    }
  }
}

}  // namespace
}  // namespace kvcal::test
