// sample_attention against dense attention of each sampled row, in double, with every key and value rounded on its own.
#include "parity/sample_inputs.h"

namespace kvcal::test {
namespace {

constexpr SampleCase kSampleCases[] = {
    {1, 1, 1, 8, 8},
    {1, 2, 1, 24, 16, Content::Zeros},
    {63, 4, 2, 16, 16},
    {64, 6, 2, 33, 7},
    {130, 8, 1, 40, 24},
    {150, 3, 3, 64, 64},
    {90, 2, 1, 128, 128, Content::Growing},
    {70, 2, 1, 16, 264},
    {200, 4, 2, 16, 16, Content::Normal, 40},
    {200, 2, 1, 20, 12, Content::Normal, 1},
    {300, 2, 2, 24, 24, Content::Growing, 70, 100},
    {140, 2, 1, 16, 16, Content::Normal, 0, 33},
    {100, 4, 2, 32, 32, Content::Normal, 0, 0, 1.5f},
    {130, 4, 2, 64, 64, Content::Normal, 40, 0, 0.0f, true},
    {80, 2, 1, 40, 24, Content::SinkToken, 0, 0, 20.0f, true},
    {130, 40, 1, 40, 32, Content::Normal, 0, 0, 0.0f, false, true},
    {66, 4, 1, 24, 16, Content::SinkToken, 0, 0, 0.0f, false, true},
    {160, 2, 1, 16, 16, Content::Normal, 0, 0, 0.0f, false, false, 5, 141},
    {160, 4, 2, 16, 16, Content::Growing, 30, 0, 0.0f, true, false, 60, 150},
    {70, 2, 1, 16, 16, Content::Zeros, 0, 0, 0.0f, true},
    {100, 2, 2, 32, 32, Content::Huge},
    {150, 4, 2, 64, 64, Content::SinkToken},
    {150, 4, 2, 64, 64, Content::TinyChannel},
    {150, 2, 1, 80, 80, Content::FewLarge},
};

/// Blocks in which rungs differ little, or for few values.
constexpr SampleCase kSharedCases[] = {
    {90, 2, 1, 40, 24},
    {90, 2, 1, 32, 32, Content::Growing},
    {70, 2, 1, 32, 32, Content::Huge},
    {90, 2, 1, 64, 64, Content::SinkToken},
    {90, 2, 1, 64, 64, Content::TinyChannel},
    {90, 2, 1, 80, 80, Content::FewLarge},
};

/// Every third row and the last, so that tiles of rows have gaps.
std::vector<int32_t> some_rows(int64_t n) {
  std::vector<int32_t> rows;
  for (int64_t i = 0; i < n; ++i)
    if (i % 3 == 1 || i == n - 1) rows.push_back(static_cast<int32_t>(i));
  return rows;
}

// ------------------------------------------------------------------ the formula

/// The nearest multiple of E4M3's step at this magnitude, even where two are as near; 448 at most.
double rounded(double x, int rung) {
  const double scale = std::ldexp(1.0, 2 * rung), y = std::fabs(x) / scale;
  if (y == 0.0) return x;
  const double step = std::ldexp(1.0, std::max(std::ilogb(y), -6) - 3);
  return std::copysign(std::min(std::nearbyint(y / step) * step, 448.0), x) * scale;
}

int rung_of(const Values& x, int64_t n_tokens) {
  const int64_t width = x.tensor().dim(1) * x.tensor().dim(2);
  double top = 0.0;
  for (int64_t i = 0; i < n_tokens * width; ++i) top = std::max(top, std::fabs(x.real[static_cast<size_t>(i)]));
  return top == 0.0 ? -kMostRung : std::max(-kMostRung, static_cast<int>(std::ceil(std::log2(top / 448.0) / 2.0)));
}

/// Logarithms of the probabilities of the visible keys, and at the end of that of the sink.
std::vector<double> log_probabilities(const SampleCase& c, const Inputs& in, int64_t row, int64_t head,
                                      const int* rung) {
  const int64_t g = head / (c.n_heads / c.n_kv_heads);
  std::vector<double> p;
  for (int64_t j = c.first_key(row); j <= c.last_key(row); ++j) {
    double dot = 0.0;
    for (int64_t d = 0; d < c.key_dim; ++d) {
      const double key = in.k.real[static_cast<size_t>((j * c.n_kv_heads + g) * c.key_dim + d)];
      dot +=
          in.q.real[static_cast<size_t>((row * c.n_heads + head) * c.key_dim + d)] * (rung ? rounded(key, *rung) : key);
    }
    const double logit = dot * double{in.scale}, cap = double{c.softcap};
    p.push_back(cap > 0.0 ? cap * std::tanh(logit / cap) : logit);
  }
  if (c.sinks) p.push_back(in.sinks.real[static_cast<size_t>(head)]);
  const double top = *std::max_element(p.begin(), p.end());
  double total = 0.0;
  for (const double x : p) total += std::exp(x - top);
  for (double& x : p) x -= top + std::log(total);
  return p;
}

struct Figures {
  double output, divergence[kSampleRungs], change[kSampleRungs];
};

Figures figures_of(const SampleCase& c, const Inputs& in, int64_t row, int64_t head, const int (&lowest)[2]) {
  const int64_t g = head / (c.n_heads / c.n_kv_heads), first = c.first_key(row), last = c.last_key(row);
  const std::vector<double> log_p = log_probabilities(c, in, row, head, nullptr);
  std::vector<double> p;
  for (const double l : log_p) p.push_back(std::exp(l));
  const auto square = [&](auto value) {  // of Σ_j p_j value(x_j), by column
    double sum = 0.0;
    for (int64_t d = 0; d < c.value_dim; ++d) {
      double y = 0.0;
      for (int64_t j = first; j <= last; ++j)
        y += p[static_cast<size_t>(j - first)] *
             value(in.v.real[static_cast<size_t>((j * c.n_kv_heads + g) * c.value_dim + d)]);
      y *= in.norms.real[static_cast<size_t>(head * c.value_dim + d)];
      sum += y * y;
    }
    return sum;
  };
  Figures f{};
  f.output = square([](double x) { return x; });
  for (int i = 0; i < kSampleRungs; ++i) {
    const bool one = i == kSampleRungs - 1;
    const int key = one ? 0 : lowest[0] + i, value = one ? 0 : lowest[1] + i;
    const std::vector<double> other = log_probabilities(c, in, row, head, &key);
    for (size_t j = 0; j < p.size(); ++j) f.divergence[i] += p[j] * (log_p[j] - other[j]);
    f.change[i] = square([&](double x) { return rounded(x, value) - x; });
  }
  return f;
}

// ------------------------------------------------------------------ comparison

/// |actual - expected| <= relative · expected + a share of |y|², or nats.
struct Bounds {
  double relative, share, nats;
};

void expect_figures(const SampleCase& c, const Inputs& in, const AttentionSample& sample,
                    const std::vector<int32_t>& rows, const Bounds& bounds) {
  const Storage rungs = on_host(sample.rungs);
  const std::vector<double> actual = read(sample.figures);
  ASSERT_EQ(rungs.tensor().shape, (Shape{static_cast<int64_t>(rows.size()), 2}));
  ASSERT_EQ(sample.figures.view.shape, (Shape{static_cast<int64_t>(rows.size()), c.n_heads, kSampleFigures}));
  double worst = 0.0;
  std::ostringstream where;
  const auto compare = [&](const char* what, size_t at, int rung, double expected, double bound) {
    const double off = std::fabs(actual[at] - expected) / bound;
    if (off <= worst) return;  // a NaN passes
    worst = std::isnan(off) ? std::numeric_limits<double>::infinity() : off;
    where.str("");
    where << what << " of row " << at / static_cast<size_t>(c.n_heads * kSampleFigures) << ", rung " << rung << ": "
          << actual[at] << ", expected " << expected << ", bound " << bound;
  };
  for (size_t r = 0; r < rows.size(); ++r) {
    const int64_t row = rows[r], seen = c.last_key(row) + 1;
    const int key = rung_of(in.k, seen), lowest[2] = {key, c.one_scale ? key : rung_of(in.v, seen)};
    EXPECT_EQ(rungs.tensor().as<int32_t>()[2 * r], lowest[0]) << "keys, row " << row;
    EXPECT_EQ(rungs.tensor().as<int32_t>()[2 * r + 1], lowest[1]) << "values, row " << row;
    for (int64_t h = 0; h < c.n_heads; ++h) {
      const Figures f = figures_of(c, in, row, h, lowest);
      const size_t at = (r * static_cast<size_t>(c.n_heads) + static_cast<size_t>(h)) * kSampleFigures;
      compare("output", at + kFigureOutput, 0, f.output, 1e-4 * f.output + 1e-30);
      for (size_t i = 0; i < kSampleRungs; ++i) {
        compare("divergence", at + kFigureDivergence + i, static_cast<int>(i), f.divergence[i],
                bounds.relative * f.divergence[i] + bounds.nats);
        compare("change", at + kFigureChange + i, static_cast<int>(i), f.change[i],
                bounds.relative * f.change[i] + bounds.share * f.output + 1e-30);
      }
    }
  }
  for (const double x : actual) EXPECT_TRUE(std::isfinite(x));
  EXPECT_LE(worst, 1.0) << where.str();
}

class SampleParity : public testing::TestWithParam<std::tuple<Precision, SampleCase>> {
 protected:
  AttentionSample sample(Ops& op, const SampleCase& c, const Inputs& in, const std::vector<int32_t>& rows,
                         bool shares) {
    const Span span{0, c.tokens, 0};
    const KvRows* const none[] = {nullptr};
    return op.sample_attention(in.q, in.k, in.v, {&span, 1}, none, in.spec(c, 0, c.tokens),
                               {rows, in.norms, c.one_scale, shares});
  }
};

TEST_P(SampleParity, EqualsDenseAttentionWithEveryRungTried) {
  const auto& [precision, c] = GetParam();
  const auto op = backend(precision);
  const Inputs in(c, op->activation_dtype());
  const std::vector<int32_t> rows = some_rows(c.tokens);
  // Logits of a few units in f32 carry 1e-6; divergences are sums of them that nearly cancel.
  expect_figures(c, in, sample(*op, c, in, rows, false), rows, {1e-3, 1e-10, 1e-5});
}

using SharedRungs = SampleParity;

TEST_P(SharedRungs, AreNearlyAsGood) {
  const auto& [precision, c] = GetParam();
  const auto op = backend(precision);
  const Inputs in(c, op->activation_dtype());
  const std::vector<int32_t> rows = some_rows(c.tokens);
  // One value in 16 may be rounded otherwise, none of those large: a quarter of the figure, or what rounding of the
  // last bit of E4M3 in such values does.
  expect_figures(c, in, sample(*op, c, in, rows, true), rows, {0.25, 1e-5, 1e-5});
}

INSTANTIATE_TEST_SUITE_P(Cases, SampleParity,
                         testing::Combine(testing::Values(Precision::F32, Precision::BF16),
                                          testing::ValuesIn(kSampleCases)));
INSTANTIATE_TEST_SUITE_P(Cases, SharedRungs,
                         testing::Combine(testing::Values(Precision::BF16), testing::ValuesIn(kSharedCases)));

}  // namespace
}  // namespace kvcal::test
