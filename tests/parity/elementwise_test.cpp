// Ops that treat every value alone, and feed-forward activations.
#include "parity/ops_cases.h"

namespace kvcal::test {
namespace {

constexpr Activation kPlainActivations[] = {Activation::Silu, Activation::Gelu, Activation::GeluTanh, Activation::Relu,
                                            Activation::Relu2};

double act(Activation a, double x) {
  switch (a) {
    case Activation::Gelu:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Activation::GeluTanh:
      return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
    case Activation::Relu:
      return std::max(x, 0.0);
    case Activation::Relu2:
      return x > 0.0 ? x * x : 0.0;
    default:
      return x * sigmoid(x);
  }
}

/// As the reference framework writes it, with log(1 + e^x) as softplus.
double xielu(double x, const std::vector<double>& w) {
  const auto softplus = [](double a) { return std::log1p(std::exp(a)); };
  const double beta = w[2], knee = w[3];
  if (x > 0) return softplus(w[0]) * x * x + beta * x;
  return (std::expm1(std::min(x, knee)) - x) * (beta + softplus(w[1])) + beta * x;
}

double clamped(double gate, double up) {
  const double g = std::min(gate, 7.0), u = std::clamp(up, -7.0, 7.0);
  return g * sigmoid(1.702 * g) * (u + 1.0);
}

double capped(Precision p, double gate, double up) {
  return std::min(round_to(p, act(Activation::Silu, gate)), 7.0) * std::clamp(up, -7.0, 7.0);
}

template <class F>
std::vector<double> map(const std::vector<double>& x, F&& f) {
  std::vector<double> y;
  for (size_t i = 0; i < x.size(); ++i) y.push_back(f(i));
  return y;
}

class Elementwise : public testing::TestWithParam<std::tuple<Precision, NormCase>> {
 protected:
  Precision precision() const { return std::get<0>(GetParam()); }
  const NormCase& c() const { return std::get<1>(GetParam()); }
  DType dtype() const { return precision() == Precision::BF16 ? DType::BF16 : DType::F32; }
  Values input(uint32_t seed, DType t, int64_t width = -1) const {
    return random_values({c().rows, width < 0 ? c().width : width}, t, seed, c().fill);
  }
  size_t row(size_t i) const { return i / static_cast<size_t>(c().width); }
};

TEST_P(Elementwise, Products) {
  const auto op = backend(precision());
  const Values x = input(1, dtype());
  // Not a power of two, nor near one: the product is rounded.
  expect_close("scale", read(op->scale(x, 0.7071f)), map(x.real, [&](size_t i) { return x.real[i] * double{0.7071f}; }),
               one_rounding(precision(), 0));
  const Values wide = input(4, DType::F32);
  expect_close("scale of F32", read(op->scale(wide, 0.7071f)),
               map(wide.real, [&](size_t i) { return wide.real[i] * double{0.7071f}; }),
               one_rounding(Precision::F32, 0));
  for (const DType t : {dtype(), DType::F32}) {
    const Values y = input(2, t), column = input(3, t, 1);
    expect_close("mul", read(op->mul(x, y)), map(x.real, [&](size_t i) { return x.real[i] * y.real[i]; }),
                 one_rounding(precision(), 0));
    expect_close("mul by row", read(op->mul(x, column)),
                 map(x.real, [&](size_t i) { return x.real[i] * column.real[row(i)]; }), one_rounding(precision(), 0));
  }
}

TEST_P(Elementwise, Softcap) {
  const auto op = backend(precision());
  const Values x = input(1, dtype());
  for (const double cap : {0.3, 30.0})
    expect_close("softcap", read(op->softcap(x, static_cast<float>(cap))),
                 map(x.real,
                     [&](size_t i) {
                       const double c = static_cast<float>(cap);
                       return c * std::tanh(x.real[i] / c);
                     }),
                 one_rounding(precision(), 5e-7));
}

TEST_P(Elementwise, Clamp) {
  const auto op = backend(precision());
  const Values x = input(1, dtype());
  constexpr float kNone = std::numeric_limits<float>::infinity();
  for (const auto& bounds : std::vector<std::pair<float, float>>{{-0.25f, 0.25f},
                                                                 {-1.5f, 0.5f},
                                                                 {0.25f, 1.0f},
                                                                 {-kNone, 0.5f},
                                                                 {-0.5f, kNone}})  // of bf16: nothing is rounded
    expect_close(
        "clamp", read(op->clamp(x, bounds.first, bounds.second)),
        map(x.real, [&](size_t i) { return std::clamp(x.real[i], double{bounds.first}, double{bounds.second}); }),
        {0, 0});
}

TEST_P(Elementwise, Xielu) {
  const auto op = backend(precision());
  const Values x = input(1, dtype());
  for (const double alpha_p : {-1.5, 0.3, 25.0}) {
    const std::vector<double> w = {alpha_p, -0.7, 0.5, double{-1e-6f}};
    std::vector<Values> one;
    for (const double v : w) one.push_back(values({1}, DType::F32, {v}));
    const XieluWeights weights = {one[0].tensor(), one[1].tensor(), one[2].tensor(), one[3].tensor()};
    std::vector<double> as_given;
    for (const Values& v : one) as_given.push_back(v.real[0]);
    // e^x - 1 - x cancels near 0, beside β x, which does not.
    expect_close("xielu", read(op->xielu(x, weights)),
                 map(x.real, [&](size_t i) { return xielu(x.real[i], as_given); }), one_rounding(precision(), 1e-6));
  }
}

TEST_P(Elementwise, Activations) {
  const auto op = backend(precision());
  const Values x = input(1, dtype()), y = input(2, dtype());
  for (const Activation a : kPlainActivations) {
    SCOPED_TRACE(static_cast<int>(a));
    // The tails, where the arguments of exponentials lose digits, are small.
    expect_close("activate", read(op->activate(x, a)), map(x.real, [&](size_t i) { return act(a, x.real[i]); }),
                 one_rounding(precision(), 5e-7));
    // The inner rounding of the reference framework may fall on the other side: one more ulp.
    expect_close("glu", read(op->glu(x, y, a)),
                 map(x.real, [&](size_t i) { return round_to(precision(), act(a, x.real[i])) * y.real[i]; }),
                 {precision() == Precision::BF16 ? 0x1p-7 * 1.01 : 1e-6, 5e-7});
  }
  expect_close("clamped glu", read(op->glu(x, y, Activation::Clamped)),
               map(x.real, [&](size_t i) { return clamped(x.real[i], y.real[i]); }), one_rounding(precision(), 5e-7));
  expect_close("capped glu", read(op->glu(x, y, Activation::Capped)),
               map(x.real, [&](size_t i) { return capped(precision(), x.real[i], y.real[i]); }),
               {precision() == Precision::BF16 ? 0x1p-7 * 1.01 : 1e-6, 5e-7});
}

INSTANTIATE_TEST_SUITE_P(Cases, Elementwise,
                         testing::Combine(testing::Values(Precision::F32, Precision::BF16),
                                          testing::ValuesIn(kNormCases)));

TEST(Elementwise, FarFromZero) {  // beyond the limits of the clamped one, and where exponentials over- and underflow
  for (const Precision p : {Precision::F32, Precision::BF16}) {
    const auto op = backend(p);
    const std::vector<double> gates = {-1e30, -200, -100, -30, -7.5, -7, 6.5, 7, 7.5, 100, 3e4},
                              ups = {3, -1e30, -9, -7, 7, 9, 1e30, -8, 8, 0.5, -0.5};
    const auto n = static_cast<int64_t>(gates.size());
    const Values g = values({1, n}, op->activation_dtype(), gates), u = values({1, n}, op->activation_dtype(), ups);
    for (const Activation a : kPlainActivations) {
      if (a == Activation::Relu2) continue;
      SCOPED_TRACE(static_cast<int>(a));
      expect_close("activate", read(op->activate(g, a)), map(g.real, [&](size_t i) { return act(a, g.real[i]); }),
                   one_rounding(p, 0x1p-60));
    }
    expect_close("clamped glu", read(op->glu(g, u, Activation::Clamped)),
                 map(g.real, [&](size_t i) { return clamped(g.real[i], u.real[i]); }), one_rounding(p, 5e-7));
    expect_close("capped glu", read(op->glu(g, u, Activation::Capped)),
                 map(g.real, [&](size_t i) { return capped(p, g.real[i], u.real[i]); }),
                 {p == Precision::BF16 ? 0x1p-7 * 1.01 : 1e-6, 5e-7});
  }
}

TEST(Elementwise, NanStays) {
  for (const Precision p : {Precision::F32, Precision::BF16}) {
    const auto op = backend(p);
    const Values x = values({1, 2}, op->activation_dtype(), {std::nan(""), 1}),
                 y = values({1, 2}, op->activation_dtype(), {1, std::nan("")});
    const auto both = [](const std::vector<double>& v) { return std::isnan(v[0]) && std::isnan(v[1]); };
    for (const Activation a : kPlainActivations) {
      const std::vector<double> v = read(op->activate(x, a));
      EXPECT_TRUE(std::isnan(v[0]) && !std::isnan(v[1])) << static_cast<int>(a);
      EXPECT_TRUE(both(read(op->glu(x, y, a)))) << static_cast<int>(a);
    }
    for (const Activation a : {Activation::Clamped, Activation::Capped}) EXPECT_TRUE(both(read(op->glu(x, y, a))));
    EXPECT_TRUE(both(read(op->mul(x, y))));
    EXPECT_TRUE(std::isnan(read(op->softcap(x, 2.0f))[0]));
    EXPECT_TRUE(std::isnan(read(op->clamp(x, -2.0f, 2.0f))[0]));
    const Values w = values({1}, DType::F32, {0.5});
    EXPECT_TRUE(std::isnan(read(op->xielu(x, {w.tensor(), w.tensor(), w.tensor(), w.tensor()}))[0]));
  }
}

TEST(Elementwise, RowsInsideATensorMayBeginAnywhere) {
  for (const Precision p : {Precision::F32, Precision::BF16}) {
    const auto op = backend(p);
    const Values x = random_values({5, 17}, op->activation_dtype(), 1);
    const Tensor whole = op->upload(x), inside = whole.rows(1, 4);
    const auto same = [&](const char* what, const Tensor& all, const Tensor& part) {
      EXPECT_TRUE(bytes_of(all.rows(1, 4)) == bytes_of(part)) << what;
    };
    same("scale", op->scale(whole, 0.3f), op->scale(inside, 0.3f));
    same("softcap", op->softcap(whole, 0.3f), op->softcap(inside, 0.3f));
    same("clamp", op->clamp(whole, -0.3f, 0.2f), op->clamp(inside, -0.3f, 0.2f));
    same("mul", op->mul(whole, whole), op->mul(inside, inside));
    same("activate", op->activate(whole, Activation::Gelu), op->activate(inside, Activation::Gelu));
    same("glu", op->glu(whole, whole, Activation::Relu2), op->glu(inside, inside, Activation::Relu2));
    same("join", op->join(whole, whole), op->join(inside, inside));
  }
}

struct JoinCase {
  Shape a, b;
};
const JoinCase kJoinCases[] = {
    {{5, 7}, {5, 3}},       {{5, 8}, {5, 16}},        {{0, 8}, {0, 4}},        {{300, 1}, {300, 2}},
    {{4, 0}, {4, 3}},       {{4, 3}, {4, 0}},         {{3, 4, 6}, {3, 4, 10}}, {{3, 4, 16}, {3, 1, 8}},
    {{3, 5, 7}, {3, 1, 9}}, {{65, 2, 8}, {65, 1, 4}}, {{2, 1, 8}, {2, 1, 8}},
};

TEST(Elementwise, Join) {
  for (const Precision p : {Precision::F32, Precision::BF16})
    for (const JoinCase& c : kJoinCases) {
      SCOPED_TRACE(str(c.a) + " " + str(c.b));
      const auto op = backend(p);
      const Values a = random_values(c.a, op->activation_dtype(), 1), b = random_values(c.b, op->activation_dtype(), 2);
      const Tensor y = op->join(a, b);
      const int64_t n = c.a[-1], m = c.b[-1], heads = c.a.rank() == 3 ? c.a[1] : 1, of_b = c.b.rank() == 3 ? c.b[1] : 1;
      std::vector<double> expected;
      for (int64_t t = 0; t < c.a[0]; ++t)
        for (int64_t h = 0; h < heads; ++h) {
          for (int64_t i = 0; i < n; ++i) expected.push_back(a.real[static_cast<size_t>((t * heads + h) * n + i)]);
          const int64_t other = t * of_b + (of_b == 1 ? 0 : h);
          for (int64_t i = 0; i < m; ++i) expected.push_back(b.real[static_cast<size_t>(other * m + i)]);
        }
      EXPECT_EQ(y.shape, c.a.rank() == 3 ? (Shape{c.a[0], heads, n + m}) : (Shape{c.a[0], n + m}));
      EXPECT_EQ(read(y), expected);
    }
}

}  // namespace
}  // namespace kvcal::test
