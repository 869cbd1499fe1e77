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

std::vector<SampledSum> merge_sampled(const std::vector<SampledSum>& a, const std::vector<SampledSum>& b) {
  std::vector<SampledSum> result;
  auto x = a.begin(), y = b.begin();
  while (x != a.end() || y != b.end()) {
    const bool from_a = x != a.end() && (y == b.end() || x->key() <= y->key());
    const bool from_b = y != b.end() && (x == a.end() || y->key() <= x->key());
    SampledSum sum = from_a ? *x : *y;
    if (from_a && from_b) {
      sum.rows += y->rows;
      sum.sum += y->sum;
      sum.worst = std::max(sum.worst, y->worst);
    }
    result.push_back(sum);
    if (from_a) ++x;
    if (from_b) ++y;
  }
  return result;
}

void AttentionTables::add(SampledSum key, double value) {
  SampledSum& sum = sums_.try_emplace(key.key(), key).first->second;
  const uint64_t fixed = to_fixed(value);
  ++sum.rows;
  sum.sum += fixed;
  sum.worst = std::max(sum.worst, fixed);
}

void AttentionTables::add(const Tensor& rungs, const Tensor& figures, int32_t reader) {
  const int64_t n_heads = figures.dim(1);
  for (int64_t r = 0; r < figures.dim(0); ++r) {
    const int32_t* lowest = rungs.as<int32_t>() + 2 * r;  // of keys, of values
    const float* row = figures.as<float>() + r * n_heads * kSampleFigures;
    double output = 0, change[kSampleRungs] = {};
    const auto rung = [&](int site, int i) { return i == kSampleRungs - 1 ? kRungOfOne : lowest[site] + i; };
    const auto repeated = [&](int site, int i) {  // scale 1.0 may be among the rungs above the lowest
      return i == kSampleRungs - 1 && lowest[site] <= kRungOfOne && kRungOfOne < lowest[site] + kSampleRungs - 1;
    };
    for (int32_t head = 0; head < n_heads; ++head) {
      const float* f = row + head * kSampleFigures;
      const auto own = static_cast<double>(f[kFigureOutput]);
      output += own;
      for (int i = 0; i < kSampleRungs; ++i) {
        const auto moved = static_cast<double>(f[kFigureChange + i]);
        change[i] += moved;
        if (!repeated(0, i))
          add({SampledFigure::KeyDivergence, reader, head, rung(0, i)}, static_cast<double>(f[kFigureDivergence + i]));
        if (!repeated(1, i)) add({SampledFigure::ValueChange, reader, head, rung(1, i)}, share_of(moved, own));
      }
    }
    for (int i = 0; i < kSampleRungs; ++i)
      if (!repeated(1, i)) add({SampledFigure::LayerChange, reader, 0, rung(1, i)}, share_of(change[i], output));
  }
}

std::vector<SampledSum> AttentionTables::encode() const {
  std::vector<SampledSum> sums;
  for (const auto& [key, sum] : sums_) sums.push_back(sum);
  return sums;
}

bool is_sampled(int64_t position, int64_t n_tokens) {
  if (n_tokens <= kSampledRows) return true;
  // The i-th of kSampledRows ends the i-th of as many equal parts.
  const auto part_end = [&](int64_t i) { return (i + 1) * n_tokens / kSampledRows - 1; };
  const int64_t i = (position + 1) * kSampledRows / n_tokens;  // of the part that ends at or after the position, or so
  return (i > 0 && part_end(i - 1) == position) || (i < kSampledRows && part_end(i) == position);
}

}  // namespace kvcal
