// Which roundings of the queries of thorough rows are tried, and which of them stands for each rung of a ladder.
#pragma once

#include <vector>

#include "ops/cpu/rung_ladder.h"
#include "ops/cpu/sample_rows.h"

namespace kvcal::cpu {

/// A rounding of a row's query that differs from the others tried of it.
struct QueryTrial {
  int64_t row;
  int rung;
  LogSum sum{};
  float moved = 0;  // Σ p (l - l')
};

/// How far each channel of the keys reaches, from its smallest value to its largest: what a change of the query there
/// can change of one logit against another.
class KeyReach {
 public:
  /// `from_zero`: a learned sink is a key of zeros.
  KeyReach(int64_t width, bool from_zero)
      : width_(width),
        low_(static_cast<size_t>((width + kLanes - 1) / kLanes * kLanes), from_zero ? 0.0f : kInfinity),
        high_(low_.size(), from_zero ? 0.0f : -kInfinity),
        reach_(low_.size()) {}

  /// Of the first n keys, `stride` values apart; n does not fall.
  template <class T>
  void extend(const T* keys, int64_t stride, int64_t n) {
    for (; n_ < n; ++n_)
      for (int64_t c = 0; c < width_; c += kLanes) {
        const F32x8 x = load(keys + n_ * stride + c, width_ - c), low = load8(low_.data() + c);
        store8(low_.data() + c, x < low ? x : low);
        store8(high_.data() + c, larger(x, load8(high_.data() + c)));
      }
    for (size_t c = 0; c < low_.size(); c += kLanes)
      store8(reach_.data() + c, load8(high_.data() + c) - load8(low_.data() + c));
  }

  /// Zeros beyond the width.
  const float* of_channels() const { return reach_.data(); }

 private:
  int64_t width_, n_ = 0;
  std::vector<float> low_, high_, reach_;
};

class QueryTrials {
 public:
  /// `sinks`: attention has learned ones.
  QueryTrials(const SampleRequest& request, int64_t width, bool sinks)
      : request_(request),
        width_(width),
        reach_(width, sinks),
        base_(static_cast<size_t>(padded(width))),
        other_(base_.size()) {}

  static int64_t padded(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

  /// The first n keys, `stride` values apart, are seen by the rows to come; n does not fall.
  template <class T>
  void see(const T* keys, int64_t stride, int64_t n) {
    reach_.extend(keys, stride, n);
  }

  /// The next row, its query [padded(width)] and the lowest rung that does not clip it; null: it tries none.
  void add_row(const float* q, int lowest) {
    const auto row = static_cast<int64_t>(first_.size()) - 1;
    first_.push_back(first_.back());
    if (!q) return;
    const RungLadder ladder = request_.query();
    F32x8 top{};
    for (int64_t c = 0; c < padded(width_); c += kLanes)
      top = larger(magnitude(load8(q + c)) * load8(reach_.of_channels() + c), top);
    large_ = largest(top) * 0x1p-6f;
    round_values(q, base_.data(), padded(width_), lowest, request_.format);
    trial_of(row, q, lowest);
    for (int i = 0; i < ladder.size(); ++i) of_rung_.push_back(trial_of(row, q, ladder.rung(i, lowest)));
    first_.back() = trials_.size();
  }

  size_t size() const { return trials_.size(); }
  QueryTrial& operator[](size_t i) { return trials_[i]; }
  std::vector<QueryTrial>& all() { return trials_; }

  /// Those of rows [row, ...) begin here.
  size_t first(int64_t row) const { return first_[static_cast<size_t>(row)]; }

  /// Of the i-th rung of the n-th row that tries.
  const QueryTrial& at(int64_t n, size_t i) const {
    return trials_[of_rung_[static_cast<size_t>(n * request_.query().size()) + i]];
  }

 private:
  size_t trial_of(int64_t row, const float* q, int rung) {
    const size_t first = first_[static_cast<size_t>(row)];
    for (size_t t = first; t < trials_.size(); ++t)
      if (trials_[t].rung == rung) return t;
    round_values(q, other_.data(), padded(width_), rung, request_.format);
    if (request_.shares_rungs && trials_.size() > first && agree(q)) return first;
    trials_.push_back({row, rung});
    return trials_.size() - 1;
  }

  /// As Agreement, for one row, in what channels give to differences of logits: a small channel may meet large keys.
  bool agree(const float* x) const {
    F32x8 differing{}, large{};
    for (size_t c = 0; c < base_.size(); c += kLanes) {
      const F32x8 change = magnitude(load8(base_.data() + c) - load8(other_.data() + c));
      const F32x8 differs = change <= magnitude(load8(x + c)) * 0x1p-5f ? F32x8{} : splat(1.0f);
      differing += differs;
      large += change * load8(reach_.of_channels() + c) > large_ ? differs : F32x8{};
    }
    return !(sum(large) > 0) && sum(differing) <= static_cast<float>(width_) / 16;
  }

  const SampleRequest& request_;
  int64_t width_;
  KeyReach reach_;                   // of the keys that the row sees
  std::vector<float> base_, other_;  // a row's query at its lowest rung, and at the rung being looked at
  float large_ = 0;                  // what no product of that query and the reach may differ by
  std::vector<QueryTrial> trials_;   // in the order of rows
  std::vector<size_t> first_{0};     // [rows + 1]
  std::vector<size_t> of_rung_;      // [rows that try, rungs of the query's ladder]
};

}  // namespace kvcal::cpu
