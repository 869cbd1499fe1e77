// sample_attention of sequences in pieces and in company, and keep_rows.
#include "parity/sample_inputs.h"

namespace kvcal::test {
namespace {

std::string bytes_of_rows(const AttentionSample& sample, int64_t first, int64_t n) {
  return bytes_of(sample.rungs.view.rows(first, n)) + bytes_of(sample.figures.view.rows(first, n));
}

constexpr SampleCase kCutCases[] = {
    {200, 4, 2, 24, 16, Content::Growing, 100},
    {200, 4, 1, 33, 40, Content::SinkToken, 0, 0, 0.0f, true},
    {200, 2, 2, 16, 16, Content::TinyChannel, 0, 70, 3.0f},
    {200, 4, 1, 24, 16, Content::FewLarge, 0, 0, 0.0f, false, true, 0, 0, SampleFormat::Int8, 1},
    {200, 4, 2, 24, 16, Content::Normal, 0, 0, 0.0f, false, false, 0, 0, SampleFormat::E4m3, 0, 2},
};

bool is_thorough(int64_t position) { return position % 56 == 2; }

Storage behind_rows_that_see_all(const Tensor& picked, int64_t n) {
  Storage words({n + picked.dim(0), picked.dim(1), picked.dim(2)}, DType::I64);
  auto* word = words.tensor().as<uint64_t>();
  const int64_t row = picked.dim(1) * picked.dim(2);
  std::fill_n(word, n * row, ~uint64_t{0});
  std::copy_n(picked.as<uint64_t>(), picked.elements(), word + n * row);
  return words;
}

// A row's figures are those of its sequence, wherever this is cut, and whatever stands
// beside it. attention() or keep_rows() keep what was before.
TEST(SampleBatches, ChunksAndNeighboursChangeNothing) {
  for (const Precision p : {Precision::F32, Precision::BF16})
    for (const SampleCase& c : kCutCases) {
      const auto op = backend(p);
      const Inputs in(c, op->activation_dtype());
      std::vector<int32_t> rows;
      std::vector<uint8_t> thorough;
      for (int64_t i = 2; i < c.tokens; i += 7) {
        rows.push_back(static_cast<int32_t>(i));
        thorough.push_back(is_thorough(i));
      }
      const Span whole{0, c.tokens, 0};
      const KvRows* const none[] = {nullptr};
      const AttentionSample all = op->sample_attention(in.q, in.k, in.v, {&whole, 1}, none, in.spec(c, 0, c.tokens),
                                                       {rows, in.norms, c.one_scale, thorough, c.format, c.below});
      for (const int64_t step : {50, 64, 128}) {
        const bool attends = step == 64;
        KvRows kept, other;
        KvRows* const own[] = {&other, &kept};
        for (int64_t first = 0; first < c.tokens; first += step) {
          const int64_t n = std::min(step, c.tokens - first);
          constexpr int64_t kOther = 21;  // rows of another sequence before: its continuation
          const auto with_other = [&](const Values& x) {
            std::vector<double> real(x.real.end() - kOther * x.tensor().dim(1) * x.tensor().dim(2), x.real.end());
            const int64_t width = x.tensor().dim(1) * x.tensor().dim(2);
            real.insert(real.end(), x.real.begin() + first * width, x.real.begin() + (first + n) * width);
            return values({kOther + n, x.tensor().dim(1), x.tensor().dim(2)}, op->activation_dtype(), real);
          };
          const Values q = with_other(in.q), k = with_other(in.k), v = with_other(in.v);
          const Span spans[] = {{0, kOther, first / step * kOther}, {kOther, n, first}};
          AttentionSpec spec = in.spec(c, first, n);
          const Storage picked = c.pickers > 0 ? behind_rows_that_see_all(spec.picked, kOther) : Storage();
          if (c.pickers > 0) spec.picked = picked.tensor();
          if (attends)
            op->attention(q, k, v, spans, own, spec);
          else
            op->keep_rows(k, v, spans, own);
          std::vector<int32_t> sampled = {3};
          std::vector<uint8_t> marks = {1};
          for (int64_t i = 0; i < n; ++i) {
            if ((first + i) % 14 != 2) continue;
            sampled.push_back(static_cast<int32_t>(kOther + i));
            marks.push_back(is_thorough(first + i));
          }
          const KvRows* const seen[] = {&other, &kept};
          const AttentionSample part =
              op->sample_attention(q, attends ? k.tensor() : Tensor{}, attends ? v.tensor() : Tensor{}, spans, seen,
                                   spec, {sampled, in.norms, c.one_scale, marks, c.format, c.below});
          for (size_t i = 1; i < sampled.size(); ++i) {
            const int64_t position = first + sampled[i] - kOther;
            ASSERT_TRUE(bytes_of_rows(part, static_cast<int64_t>(i), 1) == bytes_of_rows(all, position / 7, 1))
                << "position " << position << ", steps of " << step;
          }
          op->end_batch();
        }
      }
    }
}

TEST(SampleBatches, NothingSampledIsNothingFound) {
  const auto op = backend(Precision::BF16);
  const SampleCase c{10, 2, 1, 8, 8};
  const Inputs in(c, DType::BF16);
  const Span span{0, 10, 0};
  const KvRows* const none[] = {nullptr};
  const AttentionSample sample =
      op->sample_attention(in.q, in.k, in.v, {&span, 1}, none, in.spec(c, 0, 10), {{}, in.norms});
  EXPECT_EQ(sample.rungs.view.shape, (Shape{0, 2}));
  EXPECT_EQ(sample.figures.view.shape, (Shape{0, 2, kSampleFigures}));
}

// Of the residual stream |x|², whatever its width and wherever the rows are.
TEST(SampleBatches, SquaresTheStream) {
  for (const Precision p : {Precision::F32, Precision::BF16}) {
    const auto op = backend(p);
    const SampleCase c{40, 2, 1, 8, 8};
    const Inputs in(c, op->activation_dtype());
    const Values stream = random_values({40, 301}, op->activation_dtype(), 6, Fill::Outliers);
    const Span spans[] = {{0, 17, 0}, {17, 23, 0}};
    const KvRows* const none[] = {nullptr, nullptr};
    const std::vector<int32_t> rows = {3, 16, 17, 39};
    const std::vector<uint8_t> thorough = {0, 1, 0, 1};
    SampleRequest request{rows, in.norms, false, thorough};
    request.stream = stream;
    const AttentionSample sample = op->sample_attention(in.q, in.k, in.v, spans, none, in.spec(c, 0, 40), request);
    ASSERT_EQ(sample.stream.view.shape, (Shape{4}));
    const Storage squares = on_host(sample.stream);
    for (size_t i = 0; i < rows.size(); ++i) {
      double expected = 0.0;
      for (int64_t d = 0; d < 301; ++d) {
        const double x = stream.real[static_cast<size_t>(rows[i] * 301 + d)];
        expected += x * x;
      }
      EXPECT_NEAR(squares.tensor().as<double>()[i], expected, 1e-13 * expected) << "row " << rows[i];
    }
    request.stream = {};
    EXPECT_FALSE(op->sample_attention(in.q, in.k, in.v, spans, none, in.spec(c, 0, 40), request).stream);
  }
}

TEST(KeepRows, KeepsWhatAttentionDoes) {
  for (const Precision p : {Precision::F32, Precision::BF16}) {
    const auto op = backend(p);
    const Inputs in({90, 2, 2, 24, 16}, op->activation_dtype());
    KvRows attended, kept;
    for (const auto& chunk : {std::pair<int64_t, int64_t>{0, 50}, {50, 40}}) {
      const int64_t first = chunk.first, n = chunk.second;
      const Span spans[] = {{0, 0, 0}, {0, n, first}};
      const auto part = [&](const Values& x) { return x.tensor().rows(first, n); };
      KvRows* const a[] = {nullptr, &attended};
      KvRows* const b[] = {nullptr, &kept};
      op->attention(part(in.q), part(in.k), part(in.v), spans, a, {0.2f});
      op->keep_rows(part(in.k), part(in.v), spans, b);
    }
    ASSERT_EQ(kept.n_tokens, 90);
    EXPECT_TRUE(bytes_of(kept.key.view.rows(0, 90)) == bytes_of(in.k));
    EXPECT_TRUE(bytes_of(kept.value.view.rows(0, 90)) == bytes_of(in.v));
    EXPECT_TRUE(bytes_of(attended.key.view.rows(0, 90)) == bytes_of(in.k));
  }
}

}  // namespace
}  // namespace kvcal::test
