// Inputs of linear layers rounded to FP8, against the definition with a table of all values; and that every op which
// multiplies rounds where it should.
#include <limits>

#include "parity/ops_cases.h"

namespace kvcal::test {
namespace {

constexpr Precision kBoth[] = {Precision::F32, Precision::BF16};

/// The magnitudes of E4M3 by their codes: 0 to 448.
std::vector<double> e4m3_magnitudes() {
  std::vector<double> all;
  for (int code = 0; code < 127; ++code) {
    const int exponent = code / 8, mantissa = code % 8;
    all.push_back(exponent == 0 ? mantissa * 0x1p-9 : (8 + mantissa) * std::pow(2.0, exponent - 10));
  }
  return all;
}

/// The nearest one, of two equally near that with the even code.
double e4m3(double x) {
  static const std::vector<double> all = e4m3_magnitudes();
  const double size = std::min(std::fabs(x), all.back());
  const auto above = static_cast<size_t>(std::lower_bound(all.begin(), all.end(), size) - all.begin());
  if (above == 0) return std::copysign(0, x);
  const double up = all[above] - size, down = size - all[above - 1];
  return std::copysign(up < down || (up == down && above % 2 == 0) ? all[above] : all[above - 1], x);
}

/// In float where the servers' kernels compute in float.
float dynamic_scale(const double* x, int64_t n, const InputRounding& r) {
  float absmax = 0;
  for (int64_t i = 0; i < n; ++i) absmax = std::max(absmax, static_cast<float>(std::fabs(x[i])));
  const float scale = std::max(std::min(absmax, r.most_absmax) / 448.0f, r.least_scale);
  return r.power_of_two ? static_cast<float>(std::pow(2.0, std::ceil(std::log2(double{scale})))) : scale;
}

std::vector<double> rounded(const Values& x, int64_t width, const InputRounding& r) {
  std::vector<double> y;
  for (size_t row = 0; row < x.real.size(); row += static_cast<size_t>(width))
    for (int64_t c = 0; c < width;) {
      const int64_t n = r.scale > 0 ? width : std::min(r.group, width - c);
      const double* from = x.real.data() + row + c;
      const float scale = r.scale > 0 ? r.scale : dynamic_scale(from, n, r);
      for (int64_t i = 0; i < n; ++i) {
        const auto value = static_cast<float>(from[i]);
        const float stored = r.scale > 0 ? value * (1.0f / scale) : value / scale;
        y.push_back(double{static_cast<float>(e4m3(double{stored})) * scale});
      }
      c += n;
    }
  return y;
}

std::vector<InputRounding> roundings() {
  InputRounding fixed, bounded = InputRounding::by_token();
  fixed.scale = 0.0073f;
  bounded.most_absmax = 1.5f;
  return {fixed,
          InputRounding::by_token(),
          bounded,
          InputRounding::by_group(128, false),
          InputRounding::by_group(128, true),
          InputRounding::by_group(20, false)};
}

TEST(InputRounding, IsTheDefinition) {
  for (const Precision p : kBoth)
    for (const int64_t width : {1, 7, 96, 128, 264, 1100}) {
      const auto op = backend(p);
      for (const Fill fill : {Fill::Normal, Fill::Outliers, Fill::Zeros, Fill::Denormals})
        for (const InputRounding& r : roundings()) {
          SCOPED_TRACE(std::to_string(width) + " " + name_of(fill));
          const Values x = random_values({2, 3, width}, op->activation_dtype(), 1, fill);
          const Tensor y = op->round_input(x, r);
          EXPECT_EQ(y.shape, x.tensor().shape);
          // The same arithmetic: in bf16 one rounding of the same product.
          const std::vector<double> expected = rounded(x, width, r), actual = read(y);
          for (size_t i = 0; i < expected.size(); ++i)
            ASSERT_EQ(actual[i], round_to(p, expected[i])) << "element " << i;
        }
    }
}

TEST(InputRounding, TiesSubnormalsAndSaturation) {  // worked out by hand, with a scale of 1
  InputRounding unit;
  unit.scale = 1;
  const std::vector<double> x = {0, 1, 1.0625, 1.1875, 464, -1000, 0x1p-10, 0x1.8p-9, -0x1p-7, 0x1.1p-7, 447, 17};
  const std::vector<double> y = {0, 1, 1, 1.25, 448, -448, 0, 0x1p-8, -0x1p-7, 0x1p-7, 448, 16};
  for (const Precision p : kBoth) {
    const auto op = backend(p);
    EXPECT_EQ(read(op->round_input(values({1, 12}, op->activation_dtype(), x), unit)), y);
  }
}

TEST(InputRounding, NoneIsTheTensorItself) {
  const auto op = backend(Precision::F32);
  const Tensor x = op->upload(random_values({2, 8}, DType::F32, 1));
  EXPECT_EQ(op->round_input(x, {}).data, x.data);
}

TEST(InputRounding, NanStays) {
  for (const Precision p : kBoth) {
    const auto op = backend(p);
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const Values x = values({1, 3}, op->activation_dtype(), {1, nan, 2});
    EXPECT_TRUE(std::isnan(read(op->round_input(x, InputRounding::by_token()))[1]));
  }
}

/// Every op that multiplies gives what it gives for inputs that were rounded before.
class RoundedOps : public testing::TestWithParam<std::tuple<Precision, size_t>> {
 protected:
  const InputRounding rounding = roundings()[std::get<1>(GetParam())];
  const std::unique_ptr<Ops> op = backend(std::get<0>(GetParam()));
  const DType t = op->activation_dtype();
  const Values x = random_values({7, 40}, t, 1);

  HostLinear host(const Values& w) const { return {w.tensor(), {}, rounding}; }
};

TEST_P(RoundedOps, Linear) {
  const Values w = random_values({24, 40}, t, 2);
  const Tensor y = op->linear(x, op->load_linear(w, {}, rounding));
  EXPECT_TRUE(bytes_of(y) == bytes_of(op->linear(op->round_input(x, rounding), op->load_linear(w))));
  EXPECT_FALSE(bytes_of(y) == bytes_of(op->linear(x, op->load_linear(w))));
}

TEST_P(RoundedOps, ProjectHeads) {
  const Values q = random_values({32, 40}, t, 2), k = random_values({16, 40}, t, 3);
  const HostLinear with[] = {host(q), host(k)}, without[] = {{q, {}}, {k, {}}};
  const HeadsPart parts[] = {{16, {}, false}, {16, {}, false}};
  const HeadsSpec spec{parts, 1e-6f, {}, {}};
  const auto a = op->project_heads(x, op->load_linears(with), spec);
  const auto b = op->project_heads(op->round_input(x, rounding), op->load_linears(without), spec);
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(bytes_of(a[i]) == bytes_of(b[i]));
}

TEST_P(RoundedOps, GluMlp) {
  const Values gate = random_values({24, 40}, t, 2), up = random_values({24, 40}, t, 3),
               down = random_values({40, 24}, t, 4);
  const GluWeights w = op->load_glu(host(gate), host(up), host(down)),
                   plain = op->load_glu({gate, {}}, {up, {}}, {down, {}});
  const Tensor in = op->round_input(x, rounding);
  const Tensor both = plain.gate_up ? op->linear(in, plain.gate_up) : Tensor{};
  const Tensor hidden = op->glu(both ? op->columns(both, 0, 24) : op->linear(in, plain.gate),
                                both ? op->columns(both, 24, 24) : op->linear(in, plain.up));
  EXPECT_TRUE(bytes_of(op->glu_mlp(x, w)) == bytes_of(op->linear(op->round_input(hidden, rounding), plain.down)));

  const GluWeights mlp = op->load_mlp(host(up), host(down), Activation::Gelu),
                   plain_mlp = op->load_mlp({up, {}}, {down, {}}, Activation::Gelu);
  const Tensor activated = op->activate(op->linear(in, plain_mlp.up), Activation::Gelu);
  EXPECT_TRUE(bytes_of(op->glu_mlp(x, mlp)) ==
              bytes_of(op->linear(op->round_input(activated, rounding), plain_mlp.down)));
}

TEST_P(RoundedOps, Experts) {  // every token goes to one expert, which is then a feed-forward alone
  for (const bool gated : {true, false}) {
    std::vector<GluWeights> experts;
    std::vector<Values> kept;
    kept.reserve(9);
    const auto weight = [&](int64_t out, int64_t in, uint32_t seed) {
      kept.push_back(random_values({out, in}, t, seed, Fill::Normal, 0.2));
      return host(kept.back());
    };
    for (uint32_t e = 0; e < 3; ++e) {
      const HostLinear gate = weight(24, 40, 10 * e + 1), up = weight(24, 40, 10 * e + 2),
                       down = weight(40, 24, 10 * e + 3);
      experts.push_back(gated ? op->load_glu(gate, up, down) : op->load_mlp(up, down, Activation::Relu2));
    }
    const Storage chosen({7, 1}, DType::I32), weights({7, 1}, DType::F32);
    for (int i = 0; i < 7; ++i) {
      chosen.tensor().as<int32_t>()[i] = i % 3;
      weights.tensor().as<float>()[i] = 1.0f;
    }
    const std::vector<double> y =
        read(op->experts(op->upload(x), {op->upload(chosen.tensor()), op->upload(weights.tensor())}, experts));
    for (size_t e = 0; e < 3; ++e) {
      const std::vector<double> alone = read(op->glu_mlp(x, experts[e]));
      for (size_t row = e; row < 7; row += 3) {
        const auto of_row = [&](const std::vector<double>& v) {
          return std::vector<double>(v.begin() + static_cast<long>(row * 40),
                                     v.begin() + static_cast<long>(row * 40 + 40));
        };
        // Sums of few products; a hidden value that another order of sums puts on the other side of a tie moves one.
        expect_close("experts", of_row(y), of_row(alone), {t == DType::BF16 ? 0x1p-6 : 1e-5, 2e-2});
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, RoundedOps, testing::Combine(testing::ValuesIn(kBoth), testing::Range<size_t>(0, 6)));

TEST(InputRounding, OneGroupOneRounding) {
  const auto op = backend(Precision::F32);
  const Values w = random_values({4, 8}, DType::F32, 1);
  InputRounding small, large;
  small.scale = 0.5f;
  large.scale = 2;
  const HostLinear fixed[] = {{w, {}, small}, {w, {}, large}}, mixed[] = {{w, {}, small}, {w, {}, {}}};
  for (const Linear& part : op->load_linears(fixed).parts) EXPECT_EQ(part.input.scale, 2);  // as vLLM: the larger
  EXPECT_THROW(op->load_linears(mixed), std::exception);
}

}  // namespace
}  // namespace kvcal::test
