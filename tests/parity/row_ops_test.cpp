// Ops that treat every row (or element) alone.
#include "parity/ops_cases.h"

namespace kvcal::test {
namespace {

class RowOps : public testing::TestWithParam<std::tuple<Precision, NormCase>> {
 protected:
  Precision precision() const { return std::get<0>(GetParam()); }
  const NormCase& c() const { return std::get<1>(GetParam()); }
  Values input(uint32_t seed) const {
    return random_values({c().rows, c().width}, precision() == Precision::BF16 ? DType::BF16 : DType::F32, seed,
                         c().fill);
  }
  double& at(std::vector<double>& x, int64_t r, int64_t i) const { return x[static_cast<size_t>(r * c().width + i)]; }

  /// Σ x² of row r.
  double squares(const Values& x, int64_t r) const {
    double sum = 0.0;
    for (int64_t i = 0; i < c().width; ++i) sum += std::pow(x.real[static_cast<size_t>(r * c().width + i)], 2);
    return sum;
  }
};

TEST_P(RowOps, RmsNorm) {
  const auto op = backend(precision());
  const Values x = input(1), w = random_values({c().width}, DType::BF16, 2);
  for (const Gain kind : {Gain::Plain, Gain::OnePlus}) {
    const Owned gain = op->load_gain(w, kind);
    std::vector<double> expected = x.real;
    for (int64_t r = 0; r < c().rows; ++r) {
      const double rms = std::sqrt(squares(x, r) / static_cast<double>(c().width) + 1e-6);
      for (int64_t i = 0; i < c().width; ++i) {
        double& y = at(expected, r, i);
        y /= rms;
        const double g = w.real[static_cast<size_t>(i)];
        y = kind == Gain::OnePlus ? y * (1.0 + g) : round_to(precision(), y) * g;
      }
    }
    // Plain in bf16 rounds twice: an error below 1e-7 before the first rounding may move it by one bf16 ulp.
    const Tolerance bound = kind == Gain::Plain && precision() == Precision::BF16 ? Tolerance{0x1p-7 * 1.01, 0}
                                                                                  : one_rounding(precision(), 5e-7);
    expect_close("rms_norm", read(op->rms_norm(x, gain, 1e-6f)), expected, bound);
  }
}

TEST_P(RowOps, RmsNormWithoutGain) {
  const auto op = backend(precision());
  const Values x = input(1);
  std::vector<double> expected = x.real;
  for (int64_t r = 0; r < c().rows; ++r) {
    const double rms = std::sqrt(squares(x, r) / static_cast<double>(c().width) + 1e-6);
    for (int64_t i = 0; i < c().width; ++i) at(expected, r, i) /= rms;
  }
  expect_close("rms_norm", read(op->rms_norm(x, {}, 1e-6f)), expected, one_rounding(precision(), 5e-7));
}

/// turns: rows of the gain; 0 = no gain.
std::vector<double> layer_norm(const NormCase& c, const Values& x, const Values& gain, int64_t turns,
                               const Values* bias) {
  std::vector<double> y = x.real;
  for (int64_t r = 0; r < c.rows; ++r) {
    double* row = y.data() + r * c.width;
    double mean = 0.0, variance = 0.0;
    for (int64_t i = 0; i < c.width; ++i) mean += row[i] / static_cast<double>(c.width);
    for (int64_t i = 0; i < c.width; ++i) variance += std::pow(row[i] - mean, 2) / static_cast<double>(c.width);
    for (int64_t i = 0; i < c.width; ++i) {
      row[i] = (row[i] - mean) / std::sqrt(variance + 1e-5);
      if (turns > 0) row[i] *= gain.real[static_cast<size_t>(r % turns * c.width + i)];
      if (bias) row[i] += bias->real[static_cast<size_t>(i)];
    }
  }
  return y;
}

TEST_P(RowOps, LayerNorm) {
  const auto op = backend(precision());
  const Values x = input(1), gain = random_values({c().width}, DType::F32, 2),
               bias = random_values({c().width}, DType::F32, 3);
  // One column of outliers: the others' distance to the mean has its f32 digits.
  const Tolerance bound = one_rounding(precision(), 2e-6);
  const auto norm = [&](const Tensor& g, const Tensor& b) { return read(op->layer_norm(x, g, b, 1e-5f)); };
  expect_close("layer_norm", norm(gain, bias), layer_norm(c(), x, gain, 1, &bias), bound);
  expect_close("without bias", norm(gain, {}), layer_norm(c(), x, gain, 1, nullptr), bound);
  expect_close("without gain", norm({}, bias), layer_norm(c(), x, gain, 0, &bias), bound);
  expect_close("with neither", norm({}, {}), layer_norm(c(), x, gain, 0, nullptr), bound);
}

TEST(RowOps, LayerNormOfHeadsWithGainsOfTheirOwn) {
  for (const Precision p : {Precision::F32, Precision::BF16})
    for (const int64_t width : {7, 64, 136}) {
      const auto op = backend(p);
      const Values x = random_values({5, 3, width}, op->activation_dtype(), 1),
                   gain = random_values({3, width}, DType::F32, 2);
      expect_close("layer_norm", read(op->layer_norm(x, gain, {}, 1e-5f)),
                   layer_norm({15, width, Fill::Normal}, x, gain, 3, nullptr), one_rounding(p, 1e-6));
    }
}

TEST(RowOps, NormsOfRowsFarFromZero) {  // the mean is taken away before anything is squared
  for (const Precision p : {Precision::F32, Precision::BF16}) {
    const auto op = backend(p);
    Values x = random_values({4, 200}, op->activation_dtype(), 1);
    for (double& v : x.real) v = std::round(8.0 * v) + 1000.0;
    x = values({4, 200}, op->activation_dtype(), x.real);
    expect_close("layer_norm", read(op->layer_norm(x, {}, {}, 1e-5f)),
                 layer_norm({4, 200, Fill::Normal}, x, x, 0, nullptr), one_rounding(p, 2e-5));
  }
}

TEST_P(RowOps, L2Norm) {
  const auto op = backend(precision());
  const Values x = input(1);
  std::vector<double> expected = x.real;
  for (int64_t r = 0; r < c().rows; ++r) {
    const double length = std::sqrt(squares(x, r) + 1e-6);
    for (int64_t i = 0; i < c().width; ++i) at(expected, r, i) /= length;
  }
  expect_close("l2_norm", read(op->l2_norm(x, 1e-6f)), expected, one_rounding(precision(), 5e-7));
}

TEST_P(RowOps, GatedRmsNorm) {
  const auto op = backend(precision());
  const Values x = input(1), z = input(2), w = random_values({c().width}, DType::F32, 3);
  for (const GateActivation act : {GateActivation::Silu, GateActivation::Sigmoid})
    for (const GateOrder order : {GateOrder::AfterNorm, GateOrder::BeforeNorm})
      for (const int64_t groups : {1, 2, 3, 8}) {
        if (c().width % groups != 0) continue;
        const int64_t n = c().width / groups;
        std::vector<double> expected = x.real;
        for (int64_t r = 0; r < c().rows * groups; ++r) {
          double* row = expected.data() + r * n;
          std::vector<double> gate;
          double sum = 0.0;
          for (int64_t i = 0; i < n; ++i) {
            const double g = z.real[static_cast<size_t>(r * n + i)];
            gate.push_back(sigmoid(g) * (act == GateActivation::Silu ? g : 1.0));
            if (order == GateOrder::BeforeNorm) row[i] *= gate.back();
            sum += row[i] * row[i];
          }
          for (int64_t i = 0; i < n; ++i) {
            row[i] *= w.real[static_cast<size_t>(r % groups * n + i)] / std::sqrt(sum / static_cast<double>(n) + 1e-6);
            if (order == GateOrder::AfterNorm) row[i] *= gate[static_cast<size_t>(i)];
          }
        }
        expect_close("gated_rms_norm", read(op->gated_rms_norm(x, z, {op->load_f32(w), 1e-6f, act, order, groups})),
                     expected, one_rounding(precision(), 1e-6));
      }
}

TEST_P(RowOps, Elementwise) {
  const auto op = backend(precision());
  const Values x = input(1), y = input(2);
  const Values column = random_values({c().rows, 1}, op->activation_dtype(), 3);
  std::vector<double> sum, glu, gated, row_gated;
  for (size_t i = 0; i < x.real.size(); ++i) {
    const double a = x.real[i], b = y.real[i];
    sum.push_back(a + b);
    glu.push_back(round_to(precision(), a * sigmoid(a)) * b);
    gated.push_back(a * round_to(precision(), sigmoid(b)));
    row_gated.push_back(a * round_to(precision(), sigmoid(column.real[i / static_cast<size_t>(c().width)])));
  }
  // The inner rounding of the reference framework may fall on the other side: one more ulp.
  const Tolerance two = precision() == Precision::BF16 ? Tolerance{0x1p-7 * 1.01, 1e-38} : Tolerance{1e-6, 1e-38};
  expect_close("add", read(op->add(x, y)), sum, one_rounding(precision(), 0));
  expect_close("glu", read(op->glu(x, y)), glu, two);
  expect_close("sigmoid_mul", read(op->sigmoid_mul(x, y)), gated, two);
  expect_close("sigmoid_mul by row", read(op->sigmoid_mul(x, column)), row_gated, two);
}

INSTANTIATE_TEST_SUITE_P(Cases, RowOps,
                         testing::Combine(testing::Values(Precision::F32, Precision::BF16),
                                          testing::ValuesIn(kNormCases)));

TEST(RowOps, GainOfADtypeRoundsAsItsModelDoes) {
  const auto op = backend(Precision::BF16);
  const Values w = random_values({8}, DType::F32, 1);
  EXPECT_EQ(op->load_gain(w, Gain::Plain).view.dtype, DType::BF16);
  EXPECT_EQ(op->load_gain(w, Gain::OnePlus).view.dtype, DType::F32);
  EXPECT_EQ(backend(Precision::F32)->load_gain(w, Gain::Plain).view.dtype, DType::F32);
}

TEST(RowOps, RowsInsideATensorMayBeginAnywhere) {
  for (const Precision p : {Precision::F32, Precision::BF16}) {
    const auto op = backend(p);
    const Values x = random_values({5, 17}, op->activation_dtype(), 1);
    const Tensor inside = op->upload(x).rows(1, 4);
    const int64_t last[] = {3};
    const std::vector<double> sum = read(op->add(inside, inside)), taken = read(op->take_rows(inside, last));
    for (size_t i = 0; i < sum.size(); ++i) EXPECT_EQ(sum[i], 2 * x.real[17 + i]);
    for (size_t i = 0; i < 17; ++i) EXPECT_EQ(taken[i], x.real[4 * 17 + i]);
  }
}

TEST(RowOps, CopiesAreExact) {
  for (const Precision p : {Precision::F32, Precision::BF16}) {
    const auto op = backend(p);
    const Values table = random_values({11, 24}, DType::BF16, 1);
    const int32_t ids[] = {3, 0, 10, 3};
    const std::vector<double> y = read(op->embed(table, ids));
    for (size_t t = 0; t < 4; ++t)
      for (size_t i = 0; i < 24; ++i) EXPECT_EQ(y[t * 24 + i], table.real[static_cast<size_t>(ids[t]) * 24 + i]);

    const Values x = random_values({5, 3, 10}, op->activation_dtype(), 2);
    const Tensor cut = op->columns(x, 4, 5);
    EXPECT_EQ(cut.shape, (Shape{5, 3, 5}));
    EXPECT_EQ(read(cut)[7 * 5 + 2], x.real[7 * 10 + 6]);
    const int64_t rows[] = {4, 4, 1};
    const Tensor taken = op->take_rows(x, rows);
    EXPECT_EQ(taken.shape, (Shape{3, 3, 10}));
    EXPECT_EQ(read(taken)[30 + 11], x.real[4 * 30 + 11]);
    EXPECT_EQ(read(taken)[60 + 29], x.real[1 * 30 + 29]);

    const Tensor up = op->upload(x);
    Storage back({150}, op->activation_dtype());
    op->download(up, back.tensor());
    EXPECT_EQ(bytes_of(back.tensor()), bytes_of(x));
  }
}

TEST(Rope, PublishedNumbers) {
  const auto op = backend(Precision::F32);
  const int32_t position = 3;
  const Values x = values({1, 1, 4}, DType::F32, {1, 2, 3, 4});
  RopeSpec spec{4, {1.0f, 0.01f}, 1.0f, false, {}};
  expect_close("neox", read(op->rope(x, op->rope_table({&position, 1}, 1, spec), spec)),
               {-1.41335252, 1.87911807, -2.82885748, 4.05819114}, {3e-7, 0});
  spec.interleaved = true;
  expect_close("gpt-j", read(op->rope(x, op->rope_table({&position, 1}, 1, spec), spec)),
               {-1.27223251, -1.83886499, 2.8786681, 4.08818664}, {3e-7, 0});
}

TEST(Rope, PartialAxesMagnitudeAndLargePositions) {
  for (const Precision p : {Precision::F32, Precision::BF16})
    for (const bool interleaved : {false, true})
      for (const int64_t rotary : {0, 2, 22, 40}) {
        const auto op = backend(p);
        RopeSpec spec{rotary, {}, 1.25f, interleaved, {}};
        for (int64_t i = 0; i < rotary / 2; ++i) {
          spec.inverse_frequency.push_back(static_cast<float>(std::pow(1e4, -2.0 * static_cast<double>(i) / 40)));
          spec.axis.push_back(static_cast<int>(i % 3));
        }
        const std::vector<int32_t> positions = {0, 1, 1000000, 7, 8, 9, 131071, 5, 3};  // [3 axes][3 tokens]
        const Values x = random_values({3, 2, 40}, op->activation_dtype(), 1);
        const Tensor y = op->rope(x, op->rope_table(positions, 3, spec), spec);
        std::vector<double> expected = x.real;
        for (size_t t = 0; t < 3; ++t)
          for (size_t h = 0; h < 2; ++h)
            for (size_t i = 0; i < static_cast<size_t>(rotary) / 2; ++i) {
              const float angle = static_cast<float>(positions[i % 3 * 3 + t]) * spec.inverse_frequency[i];
              const double c = round_to(p, static_cast<float>(std::cos(double{angle})) * 1.25f);
              const double s = round_to(p, static_cast<float>(std::sin(double{angle})) * 1.25f);
              const size_t a = (t * 2 + h) * 40 + (interleaved ? 2 * i : i);
              const size_t b = interleaved ? a + 1 : a + static_cast<size_t>(rotary) / 2;
              expected[a] = x.real[a] * c - x.real[b] * s;
              expected[b] = x.real[b] * c + x.real[a] * s;
            }
        expect_close("rope", read(y), expected, one_rounding(p, 2e-7));
      }
}

}  // namespace
}  // namespace kvcal::test
