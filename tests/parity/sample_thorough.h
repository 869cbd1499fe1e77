// What the tests of thorough rows expect of sample_attention.
#pragma once

#include "parity/sample_reference.h"

namespace kvcal::test {

/// Figures of thorough rows against dense attention of each, with every key and query rounded on its own.
inline void expect_thorough(Precision precision, const SampleCase& c) {
  const auto op = backend(precision);
  const Inputs in(c, op->activation_dtype());
  const std::vector<int32_t> rows = some_rows(c.tokens);
  std::vector<uint8_t> thorough;
  for (size_t i = 0; i < rows.size(); ++i) thorough.push_back(i % 4 != 2);
  const Span span{0, c.tokens, 0};
  const KvRows* const none[] = {nullptr};
  const SampleRequest request{rows, in.norms, c.one_scale, thorough, c.format, c.below};
  const AttentionSample sample =
      op->sample_attention(in.q, in.k, in.v, {&span, 1}, none, in.spec(c, 0, c.tokens), request);
  ASSERT_EQ(sample.rungs.view.shape, (Shape{static_cast<int64_t>(rows.size()), 3}));
  ASSERT_EQ(sample.figures.view.shape, (Shape{static_cast<int64_t>(rows.size()), c.n_heads, request.n_figures()}));
  // Of |y|: what weights lose, and what f32 loses of logits of 400.
  const double share = precision == Precision::BF16 ? 0x1p-8 : c.content == Content::Offset ? 4e-4 : 3e-5;
  const Storage rungs = on_host(sample.rungs);
  const std::vector<double> actual = read(sample.figures);
  for (size_t r = 0; r < rows.size(); ++r) {
    const int64_t row = rows[r], seen = c.last_key(row) + 1;
    const int key = rung_of(in.k, 0, seen, c.format), lowest[3] = {key, 0, rung_of(in.q, row, row + 1, c.format)};
    EXPECT_EQ(rungs.tensor().as<int32_t>()[3 * r + 2], lowest[2]);
    for (int64_t h = 0; h < c.n_heads; ++h) {
      const auto at =
          (r * static_cast<size_t>(c.n_heads) + static_cast<size_t>(h)) * static_cast<size_t>(request.n_figures());
      const double *divergence = &actual[at + static_cast<size_t>(request.query_divergence())],
                   *change = &actual[at + static_cast<size_t>(request.key_change())];
      const Figures f = figures_of(c, in, row, h, lowest);
      for (size_t i = 0; i < f.query_divergence.size(); ++i) {
        const double expected = thorough[r] ? f.query_divergence[i] : -1;
        EXPECT_NEAR(divergence[i], expected, 1e-3 * std::fabs(expected) + 1e-5) << "row " << row << ", rung " << i;
      }
      for (size_t i = 0; i < f.key_change.size(); ++i) {
        if (!thorough[r]) {
          EXPECT_EQ(change[i], -1) << "row " << row;
          continue;
        }
        const double expected = std::sqrt(f.key_change[i]), output = std::sqrt(f.output);
        EXPECT_NEAR(std::sqrt(change[i]), expected, (1e-3 + weight_bound(precision)) * expected + share * output)
            << "row " << row << ", rung " << i << ", |y| " << output;
      }
    }
  }
}

/// A row's figures do not depend on the rows whose rungs are tried with its own, nor on which are thorough.
inline void expect_independent_rows(Precision p, const SampleCase& c) {
  const auto op = backend(p);
  const Inputs in(c, op->activation_dtype());
  const Span whole{0, c.tokens, 0};
  const KvRows* const none[] = {nullptr};
  std::vector<int32_t> rows;
  for (int32_t i = 1; i < c.tokens; i += 3) rows.push_back(i);
  const auto sample = [&](std::span<const int32_t> of, std::span<const uint8_t> thorough) {
    return op->sample_attention(in.q, in.k, in.v, {&whole, 1}, none, in.spec(c, 0, c.tokens),
                                {of, in.norms, c.one_scale, thorough, c.format, c.below});
  };
  const std::vector<uint8_t> every(rows.size(), 1), no_row(rows.size(), 0);
  const AttentionSample all = sample(rows, every), plain = sample(rows, {}), marked = sample(rows, no_row);
  const int64_t n = plain.figures.view.dim(2), n_all = all.figures.view.dim(2);
  const auto figures = [](const AttentionSample& s) { return read(s.figures); };
  const std::vector<double> of_all = figures(all), of_plain = figures(plain), of_marked = figures(marked);
  for (size_t i = 0; i < of_plain.size(); ++i) {
    const size_t at = i / static_cast<size_t>(n) * static_cast<size_t>(n_all) + i % static_cast<size_t>(n);
    ASSERT_EQ(of_plain[i], of_all[at]) << "figure " << i;
    ASSERT_EQ(of_plain[i], of_marked[at]) << "figure " << i;
  }
  for (const size_t i : {size_t{0}, rows.size() / 2, rows.size() - 1}) {
    const AttentionSample alone = sample(std::span(rows).subspan(i, 1), std::span(every).subspan(i, 1));
    EXPECT_TRUE(bytes_of(alone.figures.view) == bytes_of(all.figures.view.rows(static_cast<int64_t>(i), 1)))
        << "row " << i;
  }
  op->end_batch();
}

}  // namespace kvcal::test
