#include "stats/attention_tables.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvcal {
namespace {

uint64_t to_fixed(double value) {
  const double capped = value < kMostSampled ? value : kMostSampled;  // NaN too
  return static_cast<uint64_t>(std::llround(capped / kSampledUnit));
}

constexpr uint64_t kLargest = std::numeric_limits<uint64_t>::max();

uint64_t product_of(uint64_t a, uint64_t b) { return b != 0 && a > kLargest / b ? kLargest : a * b; }
uint64_t sum_of(uint64_t a, uint64_t b) { return a > kLargest - b ? kLargest : a + b; }

/// change / whole; of nothing, what changes is infinitely much.
double share_of(double change, double whole) { return change == 0 ? 0.0 : change / whole; }

/// What a row loses of its own output. One that changes by as much as it is, is lost, and cannot lose more: else a
/// single row with an output next to nothing would count like thousands of others.
double lost_of(double change, double output) { return std::min(share_of(change, output), kWholeRow); }

}  // namespace

double mean_of(const SampledSum& sum) {
  return sum.tokens == 0 ? 0 : static_cast<double>(sum.sum) * kSampledUnit / static_cast<double>(sum.tokens);
}

void SampledSum::add(const SampledSum& other) {
  rows += other.rows;
  tokens += other.tokens;
  sum = sum_of(sum, other.sum);
  worst = std::max(worst, other.worst);
}

void AttentionTables::add(SampledSum key, int64_t tokens, double value) {
  SampledSum& sum = sums_.try_emplace(key.key(), key).first->second;
  key.rows = 1;
  key.tokens = static_cast<uint64_t>(tokens);
  key.worst = to_fixed(value);
  key.sum = product_of(key.worst, key.tokens);
  sum.add(key);
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
                          std::span<const RowTokens> tokens, std::span<const double> stream) {
  const int64_t n_heads = figures.dim(1), n = figures.dim(2), n_rungs = rungs.dim(1);
  const bool has_thorough = n == request.n_figures();
  const RungLadder cache = request.cache(), query = request.query();
  for (int64_t r = 0; r < figures.dim(0); ++r) {
    const int32_t* lowest = rungs.as<int32_t>() + n_rungs * r;
    const int k = lowest[0], v = lowest[1], q = has_thorough ? lowest[2] : 0;
    const auto add_figure = [&](SampledFigure figure, int32_t head, int rung, double value) {
      const RowTokens& stands_for = tokens[static_cast<size_t>(r)];
      add({figure, request.format, reader, head, rung}, is_of_thorough(figure) ? stands_for.thorough : stands_for.all,
          value);
    };
    RowChanges row(cache.size());
    bool thorough = false;
    for (int32_t head = 0; head < n_heads; ++head) {
      const float* f = figures.as<float>() + (r * n_heads + head) * n;
      const auto own = static_cast<double>(f[request.output()]);
      row.output += own;
      for (int i = 0; i < cache.size(); ++i) {
        const auto diverged = static_cast<double>(f[request.key_divergence() + i]);
        const auto moved = static_cast<double>(f[request.value_change() + i]);
        row.value[static_cast<size_t>(i)] += moved;
        if (!repeated(cache, i, k)) add_figure(SampledFigure::KeyDivergence, head, cache.rung(i, k), diverged);
        if (!repeated(cache, i, v)) add_figure(SampledFigure::ValueChange, head, cache.rung(i, v), lost_of(moved, own));
      }
      thorough = has_thorough && !(f[request.key_change()] < 0);
      if (!thorough) continue;
      for (int i = 0; i < query.size(); ++i) {
        const auto diverged = static_cast<double>(f[request.query_divergence() + i]);
        if (!repeated(query, i, q)) add_figure(SampledFigure::QueryDivergence, head, query.rung(i, q), diverged);
      }
      for (int i = 0; i < cache.size(); ++i)
        row.key[static_cast<size_t>(i)] += static_cast<double>(f[request.key_change() + i]);
    }
    if (stream.empty()) add_shares(figures, r, request, reader, tokens[static_cast<size_t>(r)].all);
    const auto on_stream = [&](double change) { return share_of(change, stream[static_cast<size_t>(r)]); };
    for (int i = 0; i < cache.size(); ++i) {
      const double by_value = row.value[static_cast<size_t>(i)], by_key = row.key[static_cast<size_t>(i)];
      const bool has_value = !repeated(cache, i, v), has_key = thorough && !repeated(cache, i, k);
      if (has_value) add_figure(SampledFigure::LayerChange, 0, cache.rung(i, v), lost_of(by_value, row.output));
      if (has_key) add_figure(SampledFigure::KeyLayerChange, 0, cache.rung(i, k), share_of(by_key, row.output));
      if (stream.empty()) continue;
      if (has_key) add_figure(SampledFigure::KeyStreamChange, 0, cache.rung(i, k), on_stream(by_key));
      if (has_value) add_figure(SampledFigure::ValueStreamChange, 0, cache.rung(i, v), on_stream(by_value));
    }
  }
}

void AttentionTables::add_shares(const Tensor& figures, int64_t row, const SampleRequest& request, int32_t reader,
                                 int64_t tokens) {
  const int64_t n_heads = figures.dim(1);
  std::vector<double> outputs;
  double all = 0;
  for (int64_t head = 0; head < n_heads; ++head) {
    const float* f = figures.as<float>() + (row * n_heads + head) * figures.dim(2);
    outputs.push_back(static_cast<double>(f[request.output()]));
    all += outputs.back();
  }
  for (int32_t head = 0; head < n_heads && all > 0; ++head)
    add({SampledFigure::HeadShare, request.format, reader, head, kRungOfOne}, tokens,
        std::sqrt(outputs[static_cast<size_t>(head)] / all));
}

bool is_of_thorough(SampledFigure figure) {
  return figure == SampledFigure::QueryDivergence || figure == SampledFigure::KeyStreamChange ||
         figure == SampledFigure::KeyLayerChange;
}

std::vector<SampledSum> AttentionTables::encode() const {
  std::vector<SampledSum> sums;
  for (const auto& [key, sum] : sums_) sums.push_back(sum);
  return sums;
}

namespace {

constexpr int64_t kThoroughStep = 4;

int64_t n_sampled_of(int64_t n_tokens) { return std::min(n_tokens, kSampledRows); }

/// The i-th sampled position. The first token, which often is like no other, is one, and stands for itself; each of the
/// others ends one of as many equal parts of the rest.
int64_t sampled_position(int64_t i, int64_t n_tokens) {
  return i == 0 ? 0 : i * (n_tokens - 1) / (n_sampled_of(n_tokens) - 1);
}

/// Which of the sampled rows of a prompt this position is, or -1.
int64_t sample_index(int64_t position, int64_t n_tokens) {
  const int64_t parts = n_sampled_of(n_tokens) - 1, rest = std::max<int64_t>(n_tokens - 1, 1);
  const int64_t i = (position * parts + rest - 1) / rest;  // of the part that it lies in
  return sampled_position(i, n_tokens) == position ? i : -1;
}

}  // namespace

bool is_sampled(int64_t position, int64_t n_tokens) { return sample_index(position, n_tokens) >= 0; }

bool thorough(int64_t position, int64_t n_tokens) {
  return (n_sampled_of(n_tokens) - 1 - sample_index(position, n_tokens)) % kThoroughStep == 0;
}

RowTokens tokens_of_row(int64_t position, int64_t n_tokens) {
  const int64_t i = sample_index(position, n_tokens);
  const auto since = [&](int64_t before) { return position - (before < 0 ? -1 : sampled_position(before, n_tokens)); };
  return {since(i - 1), thorough(position, n_tokens) ? since(i - kThoroughStep) : 0};
}

}  // namespace kvcal
