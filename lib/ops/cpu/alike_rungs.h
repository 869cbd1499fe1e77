// Up to which rung roundings to E4M3 are alike (ops/attention_sample.h), of blocks of keys or values and of a query.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "ops/cpu/rung_ladder.h"
#include "ops/cpu/sample_rows.h"

namespace kvcal::cpu {

/// Rows of one head, `stride` values apart.
template <class T>
struct HeadRows {
  const T* begin;
  int64_t stride, width;
  const T* row(int64_t t) const { return begin + t * stride; }
};

/// Counts, in the last kAlikeTokens tokens up to one, the values that are subnormal at a rung, and those that are not
/// zero.
template <class T>
class SubnormalWindow {
 public:
  explicit SubnormalWindow(const HeadRows<T>& rows)
      : rows_(rows), small_(static_cast<size_t>((rows.width + kLanes - 1) / kLanes)), nonzero_(small_.size()) {}

  /// Whether they are few in each token and each channel of the window that ends before `end`.
  bool are_few(int64_t end, int rung) {
    move_to(std::max<int64_t>(0, end - kAlikeTokens), end, rung);
    if (n_bad_tokens_ > 0) return false;
    I32x8 all = std::bit_cast<I32x8>(~U32x8{});
    for (size_t c = 0; c < small_.size(); ++c) all &= few(small_[c], nonzero_[c]);
    return ((all[0] & all[1]) & (all[2] & all[3]) & (all[4] & all[5]) & (all[6] & all[7])) != 0;
  }

 private:
  static I32x8 few(F32x8 small, F32x8 nonzero) { return small * static_cast<float>(kFewSubnormal) <= nonzero; }

  void move_to(int64_t begin, int64_t end, int rung) {
    if (rung != rung_ || begin < begin_ || end < end_ || begin >= end_) {
      rung_ = rung;
      least_ = std::ldexp(1.0f, rung - kNormalExponent);
      begin_ = end_ = begin;
      n_bad_tokens_ = 0;
      std::ranges::fill(small_, F32x8{});
      std::ranges::fill(nonzero_, F32x8{});
    }
    for (; end_ < end; ++end_) count(end_, 1.0f);
    for (; begin_ < begin; ++begin_) count(begin_, -1.0f);
  }

  void count(int64_t token, float sign) {
    const F32x8 least = splat(least_), one = splat(sign);
    F32x8 small{}, nonzero{};
    for (size_t c = 0; c < small_.size(); ++c) {
      const auto column = static_cast<int64_t>(c) * kLanes;
      const F32x8 size = magnitude(load(rows_.row(token) + column, rows_.width - column));
      const F32x8 is_nonzero = size > F32x8{} ? one : F32x8{}, is_small = size < least ? is_nonzero : F32x8{};
      small += is_small;
      nonzero += is_nonzero;
      small_[c] += is_small;
      nonzero_[c] += is_nonzero;
    }
    if (!few(splat(sign * sum(small)), splat(sign * sum(nonzero)))[0]) n_bad_tokens_ += sign > 0 ? 1 : -1;
  }

  HeadRows<T> rows_;
  int rung_ = kNoneAlike;
  float least_ = 0;  // the least normal value there
  int64_t begin_ = 0, end_ = 0;
  int n_bad_tokens_ = 0;                // that have too many
  std::vector<F32x8> small_, nonzero_;  // by channel
};

/// The highest rung of alike roundings for each of `rows`, in order of their last keys, of one head's keys or values;
/// as high as the row's ladder goes at most, or a little more.
template <class T>
std::vector<int> alike_rungs(const HeadRows<T>& x, std::span<const SampledRow> rows, const SampleRequest& request,
                             int SampledRow::*lowest) {
  std::vector<int> alike;
  if (request.format == SampleFormat::Int8) return std::vector<int>(rows.size(), kNoneAlike);
  int whole = kNoneAlike;  // of the complete blocks so far
  for (const SampledRow& row : rows) whole = std::max(whole, request.cache().top(row.*lowest));
  SubnormalWindow<T> window(x);
  const auto lowered = [&](int rung, int64_t end) {
    while (rung > kNoneAlike && !window.are_few(end, rung)) --rung;
    return rung;
  };
  int64_t seen = 0;
  for (const SampledRow& row : rows) {
    const int64_t end = row.last_key + 1;
    for (; seen + kAlikeTokens <= end; seen += kAlikeTokens) whole = lowered(whole, seen + kAlikeTokens);
    alike.push_back(lowered(whole, end));
  }
  return alike;
}

/// The same of one query of a row, n values, zeros behind them up to a multiple of kLanes.
inline int alike_rung_of_query(const float* q, int64_t n, SampleFormat format) {
  if (format == SampleFormat::Int8) return kNoneAlike;
  F32x8 least = splat(kInfinity);
  for (int64_t c = 0; c < n; c += kLanes) {
    const F32x8 size = magnitude(load8(q + c));
    least = size > F32x8{} && size < least ? size : least;
  }
  float smallest = kInfinity;
  for (int64_t lane = 0; lane < kLanes; ++lane) smallest = std::min(smallest, least[lane]);
  if (smallest == kInfinity) return kMostRung;
  return std::clamp(std::ilogb(smallest) + kNormalExponent, kNoneAlike, kMostRung);
}

}  // namespace kvcal::cpu
