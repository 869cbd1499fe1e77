#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "stats/attention_tables.h"
#include "tensor/tensor.h"

namespace kvcal {
namespace {

TEST(SampledTokens, EachTokenOfAPromptIsStoodForOnce) {
  for (const int64_t n_tokens : {1, 2, 3, 4, 5, 63, 64, 65, 127, 128, 129, 1000, 8192, 100'003}) {
    int64_t rows = 0, all = 0, thorough_tokens = 0;
    for (int64_t position = 0; position < n_tokens; ++position) {
      if (!is_sampled(position, n_tokens)) continue;
      const RowTokens row = tokens_of_row(position, n_tokens);
      ++rows;
      all += row.all;
      thorough_tokens += row.thorough;
      EXPECT_EQ(row.thorough > 0, thorough(position, n_tokens)) << position << " of " << n_tokens;
      // The tokens since the row before it: even parts of the prompt.
      EXPECT_LE(row.all, position == 0 ? 1 : n_tokens / 63 + 1) << position << " of " << n_tokens;
      EXPECT_EQ(all, position + 1) << n_tokens;
    }
    EXPECT_EQ(rows, std::min<int64_t>(n_tokens, 64)) << n_tokens;
    EXPECT_EQ(all, n_tokens);
    EXPECT_EQ(thorough_tokens, n_tokens);
  }
}

// Two rows of one head; each figure is 1 in the first and 3 in the second.
Tensor figures_of_two_rows(Storage& storage, const SampleRequest& request) {
  const Tensor figures = storage.tensor();
  for (int64_t r = 0; r < 2; ++r)
    for (int i = 0; i < request.n_figures(); ++i)
      figures.as<float>()[r * request.n_figures() + i] = i == request.output() ? 1.0f : static_cast<float>(1 + 2 * r);
  return figures;
}

// A row that changes by more than it is, is lost, and counts like one that changes by as much.
bool is_own_change(SampledFigure figure) {
  return figure == SampledFigure::ValueChange || figure == SampledFigure::LayerChange;
}

TEST(SampledTokens, AMeanIsOverTokens) {
  const SampleRequest request;
  Storage rungs({2, 3}, DType::I32), storage({2, 1, request.n_figures()}, DType::F32);
  for (int i = 0; i < 6; ++i) rungs.tensor().as<int32_t>()[i] = 1;
  const RowTokens tokens[] = {{1, 1}, {99, 399}};
  const double stream[] = {1, 1};
  ThreadPool pool(1);
  AttentionTables tables;
  tables.add({rungs.tensor(), figures_of_two_rows(storage, request), 0, tokens, stream}, request, pool);
  size_t n = 0;
  for (const SampledSum& sum : tables.encode()) {
    const bool thorough = is_of_thorough(sum.figure);
    EXPECT_EQ(sum.rows, 2u);
    EXPECT_EQ(sum.tokens, thorough ? 400u : 100u);
    const double second = is_own_change(sum.figure) ? 1 : 3;
    EXPECT_EQ(mean_of(sum), thorough ? (1.0 + second * 399) / 400 : (1.0 + second * 99) / 100);
    n += thorough;
  }
  // Of keys, twice: 2^1 to 2^5 and 1.0. Of queries 2^1 to 2^9 and 1.0.
  EXPECT_EQ(n, 2 * 6 + 10u);
}

TEST(SampledTokens, ASumStaysAtItsLargest) {
  SampledSum most;
  most.rows = most.tokens = 1;
  most.sum = std::numeric_limits<uint64_t>::max() - 1;
  most.add(most);
  EXPECT_EQ(most.sum, std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(most.tokens, 2u);
}

}  // namespace
}  // namespace kvcal
