#include "stats/attention_tables.h"

#include <algorithm>
#include <cmath>

namespace kvcal {
namespace {

uint64_t to_fixed(double value) {
  const double capped = value < kMostSampled ? value : kMostSampled;  // NaN too
  return static_cast<uint64_t>(std::llround(capped / kSampledUnit));
}

/// change / output; nothing that changes is everything.
double share_of(double change, double output) { return change == 0 ? 0.0 : change / output; }

}  // namespace

double mean_of(const SampledSum& sum) {
  return sum.rows == 0 ? 0 : static_cast<double>(sum.sum) * kSampledUnit / static_cast<double>(sum.rows);
}

void AttentionTables::add(SampledSum key, double value) {
  SampledSum& sum = sums_.try_emplace(key.key(), key).first->second;
  const uint64_t fixed = to_fixed(value);
  ++sum.rows;
  sum.sum += fixed;
  sum.worst = std::max(sum.worst, fixed);
}

namespace {

/// Changes of all heads of a row together, by rung.
struct RowChanges {
  double output = 0;
  std::vector<double> key, value;
  explicit RowChanges(int rungs) : key(static_cast<size_t>(rungs)), value(key.size()) {}
};

/// Scale 1.0, the last of a ladder, may be among the rungs before it.
bool repeated(const RungLadder& ladder, int i, int lowest) {
  const int first = ladder.rung(0, lowest);
  return i == ladder.size() - 1 && first <= kRungOfOne && kRungOfOne < first + ladder.size() - 1;
}

}  // namespace

void AttentionTables::add(const Tensor& rungs, const Tensor& figures, const SampleRequest& request, int32_t reader,
                          std::span<const double> stream) {
  const int64_t n_heads = figures.dim(1), n = figures.dim(2), n_rungs = rungs.dim(1);
  const bool has_thorough = n == request.n_figures();
  const RungLadder cache = request.cache(), query = request.query();
  for (int64_t r = 0; r < figures.dim(0); ++r) {
    const int32_t* lowest = rungs.as<int32_t>() + n_rungs * r;
    const int k = lowest[0], v = lowest[1], q = has_thorough ? lowest[2] : 0;
    const auto key = [&](SampledFigure figure, int32_t head, int rung) {
      return SampledSum{figure, request.format, reader, head, rung};
    };
    RowChanges row(cache.size());
    bool thorough = false;
    for (int32_t head = 0; head < n_heads; ++head) {
      const float* f = figures.as<float>() + (r * n_heads + head) * n;
      const auto own = static_cast<double>(f[request.output()]);
      row.output += own;
      for (int i = 0; i < cache.size(); ++i) {
        const auto moved = static_cast<double>(f[request.value_change() + i]);
        row.value[static_cast<size_t>(i)] += moved;
        if (!repeated(cache, i, k))
          add(key(SampledFigure::KeyDivergence, head, cache.rung(i, k)),
              static_cast<double>(f[request.key_divergence() + i]));
        if (!repeated(cache, i, v)) add(key(SampledFigure::ValueChange, head, cache.rung(i, v)), share_of(moved, own));
      }
      thorough = has_thorough && !(f[request.key_change()] < 0);
      if (!thorough) continue;
      for (int i = 0; i < query.size(); ++i)
        if (!repeated(query, i, q))
          add(key(SampledFigure::QueryDivergence, head, query.rung(i, q)),
              static_cast<double>(f[request.query_divergence() + i]));
      for (int i = 0; i < cache.size(); ++i)
        row.key[static_cast<size_t>(i)] += static_cast<double>(f[request.key_change() + i]);
    }
    const auto on_stream = [&](double change) { return share_of(change, stream[static_cast<size_t>(r)]); };
    for (int i = 0; i < cache.size(); ++i) {
      const double by_value = row.value[static_cast<size_t>(i)], by_key = row.key[static_cast<size_t>(i)];
      const bool has_value = !repeated(cache, i, v), has_key = thorough && !repeated(cache, i, k);
      if (has_value) add(key(SampledFigure::LayerChange, 0, cache.rung(i, v)), share_of(by_value, row.output));
      if (stream.empty()) continue;
      if (has_key) add(key(SampledFigure::KeyStreamChange, 0, cache.rung(i, k)), on_stream(by_key));
      if (has_value) add(key(SampledFigure::ValueStreamChange, 0, cache.rung(i, v)), on_stream(by_value));
    }
  }
}

std::vector<SampledSum> AttentionTables::encode() const {
  std::vector<SampledSum> sums;
  for (const auto& [key, sum] : sums_) sums.push_back(sum);
  return sums;
}

namespace {

/// Which of the sampled rows of a prompt this position is, or -1. The i-th ends the i-th of as many equal parts.
int64_t sample_index(int64_t position, int64_t n_tokens) {
  const int64_t n = std::min(n_tokens, kSampledRows);
  const int64_t i = ((position + 1) * n + n_tokens - 1) / n_tokens - 1;  // of the part that the position lies in
  return (i + 1) * n_tokens / n - 1 == position ? i : -1;
}

}  // namespace

bool is_sampled(int64_t position, int64_t n_tokens) { return sample_index(position, n_tokens) >= 0; }

bool thorough(int64_t position, int64_t n_tokens) {
  const int64_t behind = std::min(n_tokens, kSampledRows) - 1 - sample_index(position, n_tokens);
  return behind % 4 == 0;
}

}  // namespace kvcal
