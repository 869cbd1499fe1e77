// attention against softmax over all visible keys, in double and without blocks.
#include <numeric>

#include "harness/message_of.h"
#include "parity/ops_cases.h"
#include "parity/picked_keys.h"

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
      const auto sees = [&](int64_t j) { return c.pickers == 0 || is_picked(i, h / (c.n_heads / c.pickers), j); };
      std::vector<double> weight;
      double total = 0.0;
      const int64_t last = c.last_key(i);
      for (int64_t j = first; j <= last; ++j) {
        double dot = 0.0;
        for (int64_t d = 0; d < c.key_dim; ++d)
          dot += q.real[static_cast<size_t>((i * c.n_heads + h) * c.key_dim + d)] *
                 k.real[static_cast<size_t>((j * c.n_kv_heads + g) * c.key_dim + d)];
        const double logit = dot * scale;
        weight.push_back(!sees(j)           ? -std::numeric_limits<double>::infinity()
                         : c.softcap > 0.0f ? c.softcap * std::tanh(logit / c.softcap)
                                            : logit);
      }
      const double top = *std::max_element(weight.begin(), weight.end());
      for (double& w : weight) total += w = std::exp(w - top);
      if (c.sinks) total += std::exp(sinks.real[static_cast<size_t>(h)] - top);
      for (int64_t d = 0; d < c.value_dim; ++d) {
        double sum = 0.0;
        for (int64_t j = first; j <= last; ++j)
          sum += weight[static_cast<size_t>(j - first)] / total *
                 v.real[static_cast<size_t>((j * c.n_kv_heads + g) * c.value_dim + d)];
        y[static_cast<size_t>((i * c.n_heads + h) * c.value_dim + d)] = sum;
      }
    }
  return y;
}

/// Of rows that begin at the first position.
std::vector<int32_t> last_keys(const AttentionCase& c) {
  std::vector<int32_t> last;
  for (int64_t i = 0; c.block_end > 0 && i < c.tokens; ++i) last.push_back(static_cast<int32_t>(c.last_key(i)));
  return last;
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
  const std::vector<int32_t> last = last_keys(c);
  AttentionSpec spec{scale, c.window, c.softcap, c.sinks ? sinks.tensor() : Tensor{}, c.chunk, last};
  const Storage picked = picked_words(c.tokens, std::max<int64_t>(c.pickers, 1));
  if (c.pickers > 0) spec.picked = picked.tensor();
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

// A block is never cut, and where else a sequence is cut is no matter: here inside a key block.
TEST(AttentionParity, RowsOfABlockSeeEachOtherInAnyBatch) {
  for (const Precision p : {Precision::F32, Precision::BF16})
    for (const int64_t window : {0, 30}) {
      const auto op = backend(p);
      const DType t = op->activation_dtype();
      const AttentionCase c{150, 4, 2, 24, 16, window, Fill::Normal, 0.0f, false, 0, 70, 141};
      const std::vector<int32_t> own = last_keys(c);
      constexpr int64_t kOther = 21;
      std::vector<int32_t> last(kOther);
      std::iota(last.begin(), last.end(), 0);
      last.insert(last.end(), own.begin(), own.end());
      const Values q = random_values({kOther + c.tokens, 4, 24}, t, 1),
                   k = random_values({kOther + c.tokens, 2, 24}, t, 2),
                   v = random_values({kOther + c.tokens, 2, 16}, t, 3);
      const Span spans[] = {{0, kOther, 0}, {kOther, c.tokens, 0}};
      AttentionSpec spec{0.2f, window};
      spec.last_keys = last;
      const Tensor all = op->attention(q, k, v, spans, no_rows(2), spec);
      const std::string expected = bytes_of(all.rows(kOther, c.tokens));

      KvRows kept;
      std::string cut;
      for (const auto& [first, end] : {std::pair<int64_t, int64_t>{0, 70}, {70, 141}, {141, 150}}) {
        const int64_t n = end - first, row = kOther + first;
        const Span span{0, n, first};
        KvRows* const rows[] = {&kept};
        spec.last_keys = std::span(own).subspan(static_cast<size_t>(first), static_cast<size_t>(n));
        cut += bytes_of(op->attention(q.tensor().rows(row, n), k.tensor().rows(row, n), v.tensor().rows(row, n),
                                      {&span, 1}, rows, spec));
      }
      EXPECT_TRUE(cut == expected);
      const KvRows* const again[] = {&kept};
      const Span span{0, c.tokens, 0};
      spec.last_keys = own;
      EXPECT_TRUE(bytes_of(op->attend_kept(q.tensor().rows(kOther, c.tokens), {&span, 1}, again, spec)) == expected);
    }
}

TEST(AttentionParity, LastKeysThatDoNotFitAreRefused) {
  const auto op = backend(Precision::F32);
  const Values x = random_values({4, 1, 8}, DType::F32, 1);
  const Span spans[] = {{0, 2, 0}, {2, 2, 5}};
  KvRows kept;
  const std::vector<std::pair<std::vector<int32_t>, const char*>> wrong = {
      {{0, 1, 5}, "3 last keys for q"},
      {{0, 0, 5, 6}, "the last key of row 1 is 0, expected 1 to 1"},
      {{1, 1, 5, 7}, "the last key of row 3 is 7, expected 6 to 6"},
      {{2, 2, 5, 6}, "the last key of row 0 is 2, expected 0 to 1"}};
  for (const auto& [last, message] : wrong) {
    AttentionSpec spec{0.2f};
    spec.last_keys = last;
    KvRows* const rows[] = {nullptr, &kept};
    EXPECT_NE(message_of([&] { op->attention(x, x, x, spans, rows, spec); }).find(message), std::string::npos)
        << message;
  }
  AttentionSpec spec{0.2f, 0, 0.0f, {}, 2};
  const std::vector<int32_t> last = {0, 1, 5, 6};
  spec.last_keys = last;
  KvRows* const rows[] = {nullptr, &kept};
  EXPECT_NE(message_of([&] { op->attention(x, x, x, spans, rows, spec); }).find("chunks together"), std::string::npos);
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
