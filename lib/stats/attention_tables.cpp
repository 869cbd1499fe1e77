#include "stats/attention_tables.h"

#include <algorithm>
#include <limits>

#include "stats/batch_sums.h"

namespace kvcal {
double mean_of(const SampledSum& sum) {
  return sum.tokens == 0 ? 0 : static_cast<double>(sum.sum) * kSampledUnit / static_cast<double>(sum.tokens);
}

void AttentionTables::add(const SampledBatch& batch, const SampleRequest& request, ThreadPool& pool) {
  for (const SampledSum& sum : sums_of(batch, request, pool))
    if (const auto [kept, is_new] = sums_.try_emplace(sum.key(), sum); !is_new) kept->second.add(sum);
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
