#include "ops/tap_tables.h"

#include "base/error.h"
#include "ops/ops.h"

namespace kvcal {
namespace {

void require(bool ok, const std::string& message) {
  if (!ok) fail("counting into tables: " + message);
}

std::string str(const TapRows& r) {
  return "rows " + std::to_string(r.row) + " to " + std::to_string(r.row + r.n_tokens) + " from position " +
         std::to_string(r.first_position) + " in cell " + std::to_string(r.cell) + " with ranks from " +
         std::to_string(r.first_rank) + " in steps of " + std::to_string(r.rank_step);
}

void check(const TapRows& r, const TapShape& shape, int64_t row) {
  const bool counted = r.row == row && r.n_tokens >= 1 && r.first_position >= 0 && r.cell >= 0 &&
                       r.cell < shape.cells && r.first_rank >= 0 && r.rank_step >= 1;
  require(counted, str(r) + ", expected rows from " + std::to_string(row) + " in one of " +
                       std::to_string(shape.cells) + " cells");
  // The last place itself stays free: its inverse would look like a table that has seen nothing.
  const int64_t ranks = ((int64_t{1} << kPlaceBits) - 1) / shape.width;
  require(r.first_rank < ranks && r.rank_step <= (ranks - r.first_rank - 1) / r.n_tokens,
          str(r) + " of " + std::to_string(shape.width) + " channels: more places than the tables can tell apart");
}

void check_words(const TapTables& tables, const Tensor& x) {
  const Tensor& words = tables.words.view;
  require(words.dtype == DType::U64 && words.elements() == layout_of(tables.shape).words && words.device == x.device,
          "tables " + str(words) + " do not fit x " + str(x));
}

}  // namespace

TapLayout layout_of(const TapShape& s) {
  TapLayout l;
  const auto reserve = [&l](int64_t n) {
    const int64_t from = l.words;
    l.words += n;
    return from;
  };
  l.absmax = reserve(s.heads);
  l.non_finite = reserve(s.heads);
  l.positions = reserve(kTapBuckets);
  l.cells = reserve(s.cells);
  l.token_octaves = reserve(s.kept == TapSums::None ? 0 : s.heads * 256);
  l.channel_absmax = reserve(s.kept == TapSums::Moments ? s.heads * s.width : 0);
  l.pairs = reserve(s.heads * s.pairs);
  l.codes = reserve(s.heads * kTapCodes);
  l.moments = reserve(kTapOctaves * s.heads * s.sums() * s.width);
  return l;
}

void Ops::accumulate(const Tensor& x, const TapTables& tables, std::span<const TapRows> rows) {
  const TapShape& s = tables.shape;
  require(x.dtype == DType::BF16 || x.dtype == DType::F32, "x " + str(x) + " should be BF16 or F32");
  require(x.shape.rank() == 3 && x.dim(1) == s.heads && x.dim(2) == s.width,
          "x " + str(x) + " should have " + std::to_string(s.heads) + " heads of " + std::to_string(s.width));
  constexpr int64_t kWidest = 1 << 15;
  require(s.width >= 1 && s.width <= kWidest && 2 * s.pairs <= s.width,
          std::to_string(s.pairs) + " pairs of " + std::to_string(s.width) + " channels");
  require(s.kept != TapSums::None, "tables of states");
  check_words(tables, x);
  int64_t row = 0;
  for (const TapRows& r : rows) {
    check(r, s, row);
    row += r.n_tokens;
  }
  require(row == x.dim(0), "the rows described are " + std::to_string(row) + " of x " + str(x));
  if (x.elements() > 0) do_accumulate(x, tables, rows);
}

void Ops::count_states(std::span<const Tensor> states, const TapTables& tables, std::span<const TapRows> rows) {
  const TapShape& s = tables.shape;
  require(s.kept == TapSums::None && s.pairs == 0 && s.width >= 1, "tables that are not of states");
  require(states.size() == rows.size(),
          std::to_string(states.size()) + " states, " + std::to_string(rows.size()) + " descriptions");
  for (size_t i = 0; i < rows.size(); ++i) {
    require(states[i].dtype == DType::F32 && states[i].elements() == s.heads * s.width,
            "state " + str(states[i]) + " should have " + std::to_string(s.heads) + " heads of " +
                std::to_string(s.width) + " numbers, F32");
    require(rows[i].n_tokens == 1, str(rows[i]) + ", expected one");
    check(rows[i], s, static_cast<int64_t>(i));
    check_words(tables, states[i]);
  }
  if (!states.empty()) do_count_states(states, tables, rows);
}

TapTables Ops::tap_tables(const TapShape& shape) { return {shape, allocate({layout_of(shape).words}, DType::U64)}; }

}  // namespace kvcal
