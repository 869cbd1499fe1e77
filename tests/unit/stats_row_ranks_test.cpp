// Ranks of rows: the order of Provenance in one number, and back.
#include <gtest/gtest.h>

#include <map>

#include "stats/row_ranks.h"
#include "unit/stats_fixture.h"

namespace kvcal::stats_test {
namespace {

/// Every planned row by its rank, asked for in pieces of `chunk` rows.
std::map<int64_t, Provenance> rows_by_rank(const ObservationPlan& plan, int64_t chunk) {
  const RowRanks ranks(plan);
  std::map<int64_t, Provenance> rows;
  for (const Batch& batch : batches_of(plan, {.chunk = chunk}))
    for (const Segment& s : batch.segments) {
      int64_t done = 0;
      for (const TapRows& described : ranks.describe(s)) {
        EXPECT_EQ(described.row, s.row + done);
        EXPECT_EQ(described.first_position, s.first_position + done);
        const RowRanks::Cell& cell = ranks.cells().at(static_cast<size_t>(described.cell));
        EXPECT_EQ(std::pair(cell.pass, cell.prompt), std::pair(s.pass, s.prompt));
        for (int64_t i = 0; i < described.n_tokens; ++i, ++done) {
          const int64_t rank = described.first_rank + i * described.rank_step;
          const Provenance row{s.pass, s.prompt, s.prompt_offset + done, s.first_position + done, 0, 0};
          EXPECT_TRUE(rows.emplace(rank, row).second) << "rank " << rank << " twice";
          EXPECT_EQ(ranks.row_of(rank), row);
          if (!plan.kinds.empty()) {
            EXPECT_EQ(plan.kinds[static_cast<size_t>(s.prompt)][static_cast<size_t>(row.token)], cell.kind);
          }
        }
      }
      EXPECT_EQ(done, s.n_tokens);
    }
  return rows;
}

void expect_ascending(const ObservationPlan& plan) {
  for (const int64_t chunk : {1, 7, 1000}) {
    const std::map<int64_t, Provenance> rows = rows_by_rank(plan, chunk);
    const Provenance* before = nullptr;
    for (const auto& [rank, row] : rows) {
      EXPECT_TRUE(before == nullptr || *before < row) << "rank " << rank;
      before = &row;
    }
  }
}

TEST(RowRanks, AscendAsPlacesDo) {
  expect_ascending(small_plan());
  EXPECT_EQ(rows_by_rank(small_plan(), 64).size(), 750U);
  EXPECT_EQ(rows_by_rank(small_plan(), 64).rbegin()->first, 749) << "no number is wasted where nothing repeats";
}

TEST(RowRanks, OfPromptsThatComeTwiceOrInPieces) {
  expect_ascending({1,
                    {"a", "b"},
                    {{0, 1, 0, 0, 0, 0, 20},
                     {0, 1, 0, 5, 20, 0, 30},
                     {1, 1, 1, 3, 0, 0, 4},
                     {1, 1, 0, 0, 4, 0, 35},
                     {2, 1, 1, 0, 0, 0, 3}}});
}

TEST(RowRanks, MoreRowsThanNumbers) {
  const int64_t many = int64_t{1} << kPlaceBits;
  const auto plan = [](int64_t a, int64_t b) {
    return ObservationPlan{1, {"a", "b"}, {{0, 1, 0, 0, 0, 0, a}, {1, 1, 1, 0, 0, 0, b}}};
  };
  const ObservationPlan most = plan(many / 2, many / 2);
  EXPECT_EQ(RowRanks(most).cells().size(), 2U);
  EXPECT_EQ(message_of([&] { RowRanks(plan(many / 2, many / 2 + 1)); }),
            "the plan of what to observe has more rows than statistics on a device can tell apart");
}

}  // namespace
}  // namespace kvcal::stats_test
