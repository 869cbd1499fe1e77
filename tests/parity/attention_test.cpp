// attention against softmax over all visible keys, in double and without blocks.
#include "parity/ops_cases.h"

namespace kvcal::test {
namespace {

std::vector<double> attend(const AttentionCase& c, const Values& q, const Values& k, const Values& v, double scale,
                           const Values& sinks = {}) {
  std::vector<double> y(static_cast<size_t>(c.tokens * c.n_heads * c.value_dim));
  for (int64_t i = 0; i < c.tokens; ++i)
    for (int64_t h = 0; h < c.n_heads; ++h) {
      const int64_t g = h / (c.n_heads / c.n_kv_heads);
      const int64_t windowed = c.window > 0 ? std::max<int64_t>(0, i - c.window + 1) : 0;
      const int64_t first = c.chunk > 0 ? std::max(windowed, i - i % c.chunk) : windowed;
      std::vector<double> weight;
      double total = 0.0;
      for (int64_t j = first; j <= i; ++j) {
        double dot = 0.0;
        for (int64_t d = 0; d < c.key_dim; ++d)
          dot += q.real[static_cast<size_t>((i * c.n_heads + h) * c.key_dim + d)] *
                 k.real[static_cast<size_t>((j * c.n_kv_heads + g) * c.key_dim + d)];
        const double logit = dot * scale;
        weight.push_back(c.softcap > 0.0f ? c.softcap * std::tanh(logit / c.softcap) : logit);
      }
      const double top = *std::max_element(weight.begin(), weight.end());
      for (double& w : weight) total += w = std::exp(w - top);
      if (c.sinks) total += std::exp(sinks.real[static_cast<size_t>(h)] - top);
      for (int64_t d = 0; d < c.value_dim; ++d) {
        double sum = 0.0;
        for (int64_t j = first; j <= i; ++j)
          sum += weight[static_cast<size_t>(j - first)] / total *
                 v.real[static_cast<size_t>((j * c.n_kv_heads + g) * c.value_dim + d)];
        y[static_cast<size_t>((i * c.n_heads + h) * c.value_dim + d)] = sum;
      }
    }
  return y;
}

class AttentionParity : public testing::TestWithParam<std::tuple<Precision, AttentionCase>> {};

TEST_P(AttentionParity, EqualsSoftmaxOverVisibleKeys) {
  const auto& [precision, c] = GetParam();
  const auto op = backend(precision);
  const DType dtype = op->activation_dtype();
  // Queries with outliers are scaled so that logits stay near one: their rounding is not what is tested.
  const Values q = random_values({c.tokens, c.n_heads, c.key_dim}, dtype, 1, c.fill);
  const Values k = random_values({c.tokens, c.n_kv_heads, c.key_dim}, dtype, 2);
  const Values v = random_values({c.tokens, c.n_kv_heads, c.value_dim}, dtype, 3, c.fill);
  const auto scale = static_cast<float>((c.fill == Fill::Outliers ? 1e-3 : 1.0) / std::sqrt(double(c.key_dim)));
  const Span span{0, c.tokens, 0};
  const Values sinks = random_values({c.n_heads}, DType::F32, 4, Fill::Normal, 2.0);
  const AttentionSpec spec{scale, c.window, c.softcap, c.sinks ? sinks.tensor() : Tensor{}, c.chunk};
  const Tensor y = op->attention(q, k, v, {&span, 1}, no_rows(1), spec);
  ASSERT_EQ(y.shape, (Shape{c.tokens, c.n_heads * c.value_dim}));
  // f32: logits of a few units carry 1e-6. bf16: probabilities are rounded (2^-9 each, averaging out), then the result.
  expect_close("attention", read(y), attend(c, q, k, v, double{scale}, sinks),
               one_rounding(precision, precision == Precision::BF16 ? 2e-3 : 3e-6));
}

INSTANTIATE_TEST_SUITE_P(Cases, AttentionParity,
                         testing::Combine(testing::Values(Precision::F32, Precision::BF16),
                                          testing::ValuesIn(kAttentionCases)));

TEST(AttentionParity, RowsThatAnotherLayerKeptAreRowsOfItsOwn) {
  for (const Precision p : {Precision::F32, Precision::BF16})
    for (const AttentionCase& c : {AttentionCase{150, 4, 2, 24, 16, 0, Fill::Normal},
                                   AttentionCase{150, 2, 2, 64, 64, 40, Fill::Normal, 0.0f, true, 70}}) {
      const auto op = backend(p);
      const DType t = op->activation_dtype();
      constexpr int64_t kOther = 21;
      const int64_t rows = kOther + c.tokens;
      const Values q = random_values({rows, c.n_heads, c.key_dim}, t, 1),
                   k = random_values({rows, c.n_kv_heads, c.key_dim}, t, 2),
                   v = random_values({rows, c.n_kv_heads, c.value_dim}, t, 3),
                   sinks = random_values({c.n_heads}, DType::F32, 4);
      const AttentionSpec spec{0.2f, c.window, c.softcap, c.sinks ? sinks.tensor() : Tensor{}, c.chunk};
      const Span spans[] = {{0, kOther, 0}, {kOther, c.tokens, 0}};
      KvRows kept[2];
      KvRows* const all[] = {&kept[0], &kept[1]};
      const std::string expected = bytes_of(op->attention(q, k, v, spans, all, spec));
      const KvRows* const again[] = {&kept[0], &kept[1]};
      EXPECT_TRUE(bytes_of(op->attend_kept(q, spans, again, spec)) == expected);

      // Later queries alone, and a sequence without any.
      const Span last[] = {{0, 0, 0}, {0, 22, 128}};
      const Tensor y = op->attend_kept(q.tensor().rows(kOther + 128, 22), last, again, spec);
      EXPECT_EQ(y.shape, (Shape{22, c.n_heads * c.value_dim}));
      EXPECT_TRUE(bytes_of(y) == expected.substr(expected.size() - y.bytes()));
    }
}

TEST(AttentionParity, SinksTakeTheirShare) {  // the specification's numbers
  for (const Precision p : {Precision::F32, Precision::BF16}) {
    const auto op = backend(p);
    const DType t = op->activation_dtype();
    const Values q = values({2, 1, 1}, t, {1, 1}), k = values({2, 1, 1}, t, {1, 2}),
                 v = values({2, 1, 2}, t, {1, 0, 0, 1}), sinks = values({1}, DType::F32, {0.5});
    const Span span{0, 2, 0};
    const std::vector<double> y = read(op->attention(q, k, v, {&span, 1}, no_rows(1), {1.0f, 0, 0.0f, sinks}));
    expect_close("attention", {y[2], y[3]}, {.231223898, .628531719},
                 one_rounding(p, p == Precision::BF16 ? 2e-3 : 1e-6));
  }
}

TEST(AttentionParity, LargeLogitsDoNotOverflow) {
  const auto op = backend(Precision::F32);
  const AttentionCase c{100, 1, 1, 8, 8, 0, Fill::Normal};
  const Values q = random_values({100, 1, 8}, DType::F32, 1, Fill::Normal, 100.0);
  const Values k = random_values({100, 1, 8}, DType::F32, 2, Fill::Normal, 100.0),
               v = random_values({100, 1, 8}, DType::F32, 3);
  const Span span{0, 100, 0};
  // Logits near 1e5 carry an absolute error of 1e-2.
  expect_close("attention", read(op->attention(q, k, v, {&span, 1}, no_rows(1), {1.0f, 0})), attend(c, q, k, v, 1.0),
               {0, 2e-2});
}

TEST(AttentionParity, NanReachesTheRowsThatSeeItAndOnlyLaterOnes) {
  for (const Precision p : {Precision::F32, Precision::BF16}) {
    const auto op = backend(p);
    Values k = random_values({200, 1, 8}, op->activation_dtype(), 2);
    k.real[130 * 8 + 3] = std::nan("");
    k = values({200, 1, 8}, op->activation_dtype(), k.real);
    const Values q = random_values({200, 1, 8}, op->activation_dtype(), 1),
                 v = random_values({200, 1, 8}, op->activation_dtype(), 3);
    const Span span{0, 200, 0};
    const std::vector<double> y = read(op->attention(q, k, v, {&span, 1}, no_rows(1), {0.3f, 0}));
    for (size_t t = 0; t < 200; ++t)
      for (size_t d = 0; d < 8; ++d) EXPECT_EQ(std::isnan(y[t * 8 + d]), t >= 130) << t;
  }
}

}  // namespace
}  // namespace kvcal::test
