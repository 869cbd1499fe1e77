// sample_attention against dense attention of each sampled row, in double, with every key and value rounded on its own.
#include "parity/sample_reference.h"

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
    {90, 40, 1, 40, 32, Content::Normal, 0, 0, 0.0f, false, true},
    {66, 4, 1, 24, 16, Content::SinkToken, 0, 0, 0.0f, false, true},
    {160, 2, 1, 16, 16, Content::Normal, 0, 0, 0.0f, false, false, 5, 141},
    {160, 4, 2, 16, 16, Content::Growing, 30, 0, 0.0f, true, false, 60, 150},
    {70, 2, 1, 16, 16, Content::Zeros, 0, 0, 0.0f, true},
    {100, 2, 2, 32, 32, Content::Huge},
    {150, 4, 2, 64, 64, Content::SinkToken},
    {150, 4, 2, 64, 64, Content::TinyChannel},
    {150, 2, 1, 80, 80, Content::FewLarge},
    {200, 4, 2, 24, 16, Content::Normal, 0, 0, 0.0f, false, false, 0, 0, SampleFormat::E4m3, 0, 2},
    {200, 4, 4, 40, 24, Content::Growing, 90, 0, 2.0f, true, false, 0, 0, SampleFormat::E4m3, 0, 2},
    {150, 20, 1, 40, 32, Content::Normal, 0, 0, 0.0f, false, true, 0, 0, SampleFormat::E4m3, 0, 1},
};

/// Longer ladders, of one walk over the keys and of several, and INT8.
constexpr SampleCase kFormCases[] = {
    {70, 4, 2, 33, 7, Content::Normal, 0, 0, 0.0f, false, false, 0, 0, SampleFormat::Int8},
    {70, 4, 2, 24, 16, Content::Growing, 30, 0, 0.0f, true, false, 0, 0, SampleFormat::Int8, 1},
    {66, 4, 1, 40, 24, Content::SinkToken, 0, 0, 20.0f, false, true, 0, 0, SampleFormat::Int8, 3},
    {70, 2, 1, 16, 136, Content::Normal, 0, 33, 0.0f, false, false, 0, 0, SampleFormat::E4m3, 3},
    {70, 2, 2, 20, 12, Content::FewLarge, 0, 0, 0.0f, true, false, 0, 0, SampleFormat::E4m3, 4},
    {30, 2, 1, 16, 16, Content::Zeros, 0, 0, 0.0f, true, false, 0, 0, SampleFormat::Int8, 8},
    {40, 2, 1, 9, 8, Content::Huge, 0, 0, 0.0f, false, false, 0, 0, SampleFormat::E4m3, 8},
};

// ------------------------------------------------------------------ comparison

/// |actual - expected| <= relative · expected + a share of |y|², or nats.
struct Bounds {
  double relative, share, nats, output;
};

void expect_figures(const SampleCase& c, const Inputs& in, const AttentionSample& sample,
                    const std::vector<int32_t>& rows, const Bounds& bounds) {
  const Storage rungs = on_host(sample.rungs);
  const std::vector<double> actual = read(sample.figures);
  const SampleRequest request = c.request();
  const auto n_slots = static_cast<size_t>(request.cache().size()),
             n_figures = static_cast<size_t>(request.query_divergence());
  ASSERT_EQ(rungs.tensor().shape, (Shape{static_cast<int64_t>(rows.size()), 2}));
  ASSERT_EQ(sample.figures.view.shape,
            (Shape{static_cast<int64_t>(rows.size()), c.n_heads, static_cast<int64_t>(n_figures)}));
  double worst = 0.0;
  std::ostringstream where;
  const auto compare = [&](const char* what, size_t at, int rung, double expected, double bound) {
    const double off = std::fabs(actual[at] - expected) / bound;
    if (off <= worst) return;  // a NaN passes
    worst = std::isnan(off) ? std::numeric_limits<double>::infinity() : off;
    where.str("");
    where << what << " of row " << at / (static_cast<size_t>(c.n_heads) * n_figures) << ", rung " << rung << ": "
          << actual[at] << ", expected " << expected << ", bound " << bound;
  };
  for (size_t r = 0; r < rows.size(); ++r) {
    const int64_t row = rows[r], seen = c.last_key(row) + 1;
    const int key = rung_of(in.k, 0, seen, c.format),
              lowest[3] = {key, c.one_scale ? key : rung_of(in.v, 0, seen, c.format), 0};
    EXPECT_EQ(rungs.tensor().as<int32_t>()[2 * r], lowest[0]) << "keys, row " << row;
    EXPECT_EQ(rungs.tensor().as<int32_t>()[2 * r + 1], lowest[1]) << "values, row " << row;
    for (int64_t h = 0; h < c.n_heads; ++h) {
      const Figures f = figures_of(c, in, row, h, lowest);
      const size_t at = (r * static_cast<size_t>(c.n_heads) + static_cast<size_t>(h)) * n_figures;
      compare("output", at + static_cast<size_t>(request.output()), 0, f.output, bounds.output * f.output + 1e-30);
      for (size_t i = 0; i < n_slots; ++i) {
        compare("divergence", at + static_cast<size_t>(request.key_divergence()) + i, static_cast<int>(i),
                f.divergence[i], bounds.relative * f.divergence[i] + bounds.nats);
        compare("change", at + static_cast<size_t>(request.value_change()) + i, static_cast<int>(i), f.change[i],
                bounds.relative * f.change[i] + bounds.share * f.output + 1e-30);
      }
    }
  }
  for (const double x : actual) EXPECT_TRUE(std::isfinite(x));
  EXPECT_LE(worst, 1.0) << where.str();
}

class SampleParity : public testing::TestWithParam<std::tuple<Precision, SampleCase>> {
 protected:
  AttentionSample sample(Ops& op, const SampleCase& c, const Inputs& in, const std::vector<int32_t>& rows) {
    const Span span{0, c.tokens, 0};
    const KvRows* const none[] = {nullptr};
    return op.sample_attention(in.q, in.k, in.v, {&span, 1}, none, in.spec(c, 0, c.tokens),
                               {rows, in.norms, c.one_scale, {}, c.format, c.below});
  }
};

TEST_P(SampleParity, EqualsDenseAttentionWithEveryRungTried) {
  const auto& [precision, c] = GetParam();
  const auto op = backend(precision);
  const Inputs in(c, op->activation_dtype());
  const std::vector<int32_t> rows = some_rows(c.tokens);
  // Logits of a few units in f32 carry 1e-6; divergences are sums of them that nearly cancel.
  expect_figures(c, in, sample(*op, c, in, rows), rows,
                 {1e-3 + weight_bound(precision), 1e-10, 1e-5, 1e-4 + weight_bound(precision)});
}

INSTANTIATE_TEST_SUITE_P(Cases, SampleParity,
                         testing::Combine(testing::Values(Precision::F32, Precision::BF16),
                                          testing::ValuesIn(kSampleCases)));
INSTANTIATE_TEST_SUITE_P(Forms, SampleParity,
                         testing::Combine(testing::Values(Precision::F32, Precision::BF16),
                                          testing::ValuesIn(kFormCases)));

}  // namespace
}  // namespace kvcal::test
