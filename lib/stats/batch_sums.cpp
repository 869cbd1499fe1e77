#include "stats/batch_sums.h"

#include <algorithm>
#include <iterator>
#include <limits>

namespace kvcal {
namespace {

/// To the nearest, as std::llround, calls of which would take a quarter of the time.
uint64_t to_fixed(double value) {
  const double units = (value < kMostSampled ? value : kMostSampled) / kSampledUnit;  // NaN too
  const auto whole = static_cast<int64_t>(units);
  return static_cast<uint64_t>(whole + (units - static_cast<double>(whole) >= 0.5));
}

SampledSum one_row(uint64_t tokens, double value) {
  SampledSum row;
  row.rows = 1;
  row.tokens = tokens;
  row.worst = to_fixed(value);
  if (__builtin_mul_overflow(row.worst, tokens, &row.sum)) row.sum = std::numeric_limits<uint64_t>::max();
  return row;
}

/// change / whole; of nothing, what changes is infinitely much.
double share_of(double change, double whole) { return change == 0 ? 0.0 : change / whole; }

/// What a row loses of its own output. One that changes by as much as it is, is lost, and cannot lose more: else a
/// single row with an output next to nothing would count like thousands of others.
double lost_of(double change, double output) { return std::min(share_of(change, output), kWholeRow); }

/// Columns of AttentionSample::rungs.
constexpr int64_t kKey = 0, kValue = 1, kQuery = 2;

/// Of the lowest rungs of a batch's rows.
struct Range {
  int least = 0, most = 0;
};

Range range_of(const Tensor& rungs, int64_t column) {
  const int64_t width = rungs.dim(1);
  if (column >= width) return {};
  const int32_t* lowest = rungs.as<int32_t>() + column;
  Range range{lowest[0], lowest[0]};
  for (int64_t row = 1; row < rungs.dim(0); ++row) {
    range.least = std::min(range.least, lowest[row * width]);
    range.most = std::max(range.most, lowest[row * width]);
  }
  return range;
}

/// Of one figure, dense: nearly all are of every row, and to look each up in a map takes far longer than to add to it.
class FigureSums {
 public:
  FigureSums(const SampledSum& of, int64_t n_heads, const RungLadder& ladder, const Range& lowest)
      : ladder_(ladder),
        least_(lowest.least),
        n_rungs_(lowest.most - lowest.least + ladder.size()),
        sums_(static_cast<size_t>(n_heads * n_rungs_), of) {
    for (int64_t head = 0; head < n_heads; ++head)
      for (int i = 0; i < n_rungs_; ++i) {
        SampledSum& sum = sums_[static_cast<size_t>(head * n_rungs_ + i)];
        sum.head = static_cast<int32_t>(head);
        sum.rung = i == 0 ? kRungOfOne : ladder.rung(0, least_) + i - 1;
      }
  }

  /// value_at(i): at the i-th rung of the ladder.
  template <class Value>
  void add_row(int64_t head, int lowest, int64_t tokens, const Value& value_at) {
    SampledSum* const at_one = sums_.data() + head * n_rungs_;
    SampledSum* const at_lowest = at_one + 1 + lowest - least_;
    const int last = ladder_.size() - 1;
    for (int i = 0; i <= last; ++i)
      if (!ladder_.repeats(i, lowest)) (i == last ? *at_one : at_lowest[i]).add(one_row(tokens, value_at(i)));
  }

  void add(const FigureSums& other) {
    for (size_t i = 0; i < sums_.size(); ++i) sums_[i].add(other.sums_[i]);
  }

  void append_to(std::vector<SampledSum>& all) const {
    std::ranges::copy_if(sums_, std::back_inserter(all), [](const SampledSum& sum) { return sum.rows > 0; });
  }

 private:
  RungLadder ladder_;
  int least_, n_rungs_;
  std::vector<SampledSum> sums_;  // [n_heads, n_rungs_]: at scale 1.0, then at the ladder's rungs from the least
};

/// Of some of a batch's rows.
class BatchSums {
 public:
  BatchSums(const SampledBatch& batch, const SampleRequest& request)
      : batch_(batch), request_(request), n_heads_(batch.figures.dim(1)) {
    for (int figure = 0; figure <= static_cast<int>(kLastSampledFigure); ++figure)
      sums_.push_back(none_of(static_cast<SampledFigure>(figure)));
  }

  void add_row(int64_t row) {
    const double output = of_all_heads(row, request_.output(), 1)[0];
    add_keys_and_values(row, output);
    if (is_thorough(row)) add_thorough(row, output);
  }

  void add(const BatchSums& other) {
    for (size_t figure = 0; figure < sums_.size(); ++figure) sums_[figure].add(other.sums_[figure]);
  }

  std::vector<SampledSum> all() const {
    std::vector<SampledSum> all;
    for (const FigureSums& figure : sums_) figure.append_to(all);
    return all;
  }

 private:
  FigureSums none_of(SampledFigure figure) const {
    const SampledSum of{figure, request_.format, batch_.reader};
    const auto lowest = [&](int64_t column) { return range_of(batch_.rungs, column); };
    switch (figure) {
      case SampledFigure::KeyDivergence:
        return {of, n_heads_, request_.cache(), lowest(kKey)};
      case SampledFigure::ValueChange:
        return {of, n_heads_, request_.cache(), lowest(kValue)};
      case SampledFigure::QueryDivergence:
        return {of, n_heads_, request_.query(), lowest(kQuery)};
      case SampledFigure::LayerChange:
      case SampledFigure::ValueStreamChange:
        return {of, 1, request_.cache(), lowest(kValue)};
      case SampledFigure::KeyLayerChange:
      case SampledFigure::KeyStreamChange:
        return {of, 1, request_.cache(), lowest(kKey)};
    }
    return {of, 0, {}, {}};
  }

  FigureSums& at(SampledFigure figure) { return sums_[static_cast<size_t>(figure)]; }

  const float* figures_of(int64_t row, int64_t head) const {
    return batch_.figures.as<float>() + (row * n_heads_ + head) * batch_.figures.dim(2);
  }
  /// Each of n figures, summed over the heads.
  std::vector<double> of_all_heads(int64_t row, int first, int n) const {
    std::vector<double> sums(static_cast<size_t>(n));
    for (int64_t head = 0; head < n_heads_; ++head) {
      const float* f = figures_of(row, head) + first;
      for (double& sum : sums) sum += static_cast<double>(*f++);
    }
    return sums;
  }
  const RowTokens& tokens_of(int64_t row) const { return batch_.tokens[static_cast<size_t>(row)]; }
  double on_stream(int64_t row, double change) const {
    return share_of(change, batch_.stream[static_cast<size_t>(row)]);
  }
  bool is_thorough(int64_t row) const {
    return batch_.figures.dim(2) == request_.n_figures() && !(figures_of(row, 0)[request_.key_change()] < 0);
  }

  /// At the rungs of `column`; value_at(i): at the i-th of them.
  template <class Value>
  void add(SampledFigure figure, int64_t row, int64_t head, int64_t column, const Value& value_at) {
    const int lowest = batch_.rungs.as<int32_t>()[row * batch_.rungs.dim(1) + column];
    const RowTokens& tokens = tokens_of(row);
    at(figure).add_row(head, lowest, is_of_thorough(figure) ? tokens.thorough : tokens.all, value_at);
  }

  void add_keys_and_values(int64_t row, double output) {
    for (int64_t head = 0; head < n_heads_; ++head) {
      const float* f = figures_of(row, head);
      const float *divergence = f + request_.key_divergence(), *change = f + request_.value_change();
      const auto own = static_cast<double>(f[request_.output()]);
      add(SampledFigure::KeyDivergence, row, head, kKey, [&](int i) { return static_cast<double>(divergence[i]); });
      add(SampledFigure::ValueChange, row, head, kValue,
          [&](int i) { return lost_of(static_cast<double>(change[i]), own); });
    }
    const std::vector<double> changes = of_all_heads(row, request_.value_change(), request_.cache().size());
    const double* change = changes.data();
    add(SampledFigure::LayerChange, row, 0, kValue, [&](int i) { return lost_of(change[i], output); });
    if (!batch_.stream.empty())
      add(SampledFigure::ValueStreamChange, row, 0, kValue, [&](int i) { return on_stream(row, change[i]); });
  }

  void add_thorough(int64_t row, double output) {
    for (int64_t head = 0; head < n_heads_; ++head) {
      const float* divergence = figures_of(row, head) + request_.query_divergence();
      add(SampledFigure::QueryDivergence, row, head, kQuery, [&](int i) { return static_cast<double>(divergence[i]); });
    }
    const std::vector<double> changes = of_all_heads(row, request_.key_change(), request_.cache().size());
    const double* change = changes.data();
    add(SampledFigure::KeyLayerChange, row, 0, kKey, [&](int i) { return share_of(change[i], output); });
    if (!batch_.stream.empty())
      add(SampledFigure::KeyStreamChange, row, 0, kKey, [&](int i) { return on_stream(row, change[i]); });
  }

  const SampledBatch& batch_;
  const SampleRequest& request_;
  int64_t n_heads_;
  std::vector<FigureSums> sums_;  // by figure
};

}  // namespace

std::vector<SampledSum> sums_of(const SampledBatch& batch, const SampleRequest& request, ThreadPool& pool) {
  constexpr int64_t kFewestRows = 32;  // that are worth arrays of their own
  const int64_t n_rows = batch.figures.dim(0);
  if (n_rows == 0) return {};
  const int64_t n_parts = std::clamp<int64_t>(n_rows / kFewestRows, 1, pool.n_threads());
  std::vector<BatchSums> parts(static_cast<size_t>(n_parts), BatchSums(batch, request));
  pool.parallel_for(n_parts, [&](int64_t part, int) {
    const int64_t end = n_rows * (part + 1) / n_parts;
    for (int64_t row = n_rows * part / n_parts; row < end; ++row) parts[static_cast<size_t>(part)].add_row(row);
  });
  for (size_t part = 1; part < parts.size(); ++part) parts[0].add(parts[part]);
  return parts[0].all();
}

}  // namespace kvcal
