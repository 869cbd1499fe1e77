// Which roundings of the queries of thorough rows are tried, and which of them stands for each rung of a ladder.
#pragma once

#include <vector>

#include "ops/cpu/alike_rungs.h"
#include "ops/cpu/sample_rows.h"

namespace kvcal::cpu {

/// A rounding of a row's query that differs from the others tried of it.
struct QueryTrial {
  int64_t row;
  int rung;
  LogSum sum{};
  float moved = 0;  // Σ p (l - l')
};

class QueryTrials {
 public:
  /// Queries of so many channels.
  QueryTrials(const SampleRequest& request, int64_t width) : request_(request), width_(width) {}

  static int64_t padded(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

  /// The next row, its query [padded(width)] and the lowest rung that does not clip it; null: it tries none.
  void add_row(const float* q, int lowest) {
    const auto row = static_cast<int64_t>(first_.size()) - 1;
    first_.push_back(first_.back());
    if (!q) return;
    const RungLadder ladder = request_.query();
    const int alike = alike_rung_of_query(q, width_, request_.format);
    for (int i = 0; i < ladder.size(); ++i)
      of_rung_.push_back(trial_of(row, tried_rung(ladder.rung(i, lowest), lowest, alike)));
    first_.back() = trials_.size();
  }

  size_t size() const { return trials_.size(); }
  QueryTrial& operator[](size_t i) { return trials_[i]; }
  std::vector<QueryTrial>& all() { return trials_; }

  /// Those of rows [row, ...) begin here.
  size_t first(int64_t row) const { return first_[static_cast<size_t>(row)]; }

  /// Which of them is of the i-th rung of the n-th row that tries.
  size_t at(int64_t n, int i) const { return of_rung_[static_cast<size_t>(n * request_.query().size() + i)]; }

 private:
  size_t trial_of(int64_t row, int rung) {
    for (size_t t = first_[static_cast<size_t>(row)]; t < trials_.size(); ++t)
      if (trials_[t].rung == rung) return t;
    trials_.push_back({row, rung});
    return trials_.size() - 1;
  }

  const SampleRequest& request_;
  int64_t width_;
  std::vector<QueryTrial> trials_;  // in the order of rows
  std::vector<size_t> first_{0};    // [rows + 1]
  std::vector<size_t> of_rung_;     // [rows that try, rungs of the query's ladder]
};

}  // namespace kvcal::cpu
