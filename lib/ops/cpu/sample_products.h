// The products of sampled attention, in the two forms that attention_products.h has of attention's own. What is
// multiplied comes as float rows: queries and probabilities on the left, blocks of 64 keys or values on the right.
#pragma once

#include <algorithm>
#include <vector>

#include "ops/cpu/attention_products.h"
#include "ops/cpu/rung_ladder.h"

namespace kvcal::cpu {

/// Float by float.
class WideSample {
 public:
  using Element = float;

  WideSample(int64_t key_dim, int64_t, Arena& scratch)
      : keys_(scratch.allocate({key_dim * kLogitsRow}, DType::F32).as<float>()) {}

  /// Row distance of the left factor with n summed values; of the result with n columns.
  static constexpr int64_t left_row(int64_t n) { return row_stride(n); }
  static constexpr int64_t result_row(int64_t n) { return row_stride(n); }

  /// What load_left() makes of eight values.
  static F32x8 weight(F32x8 x) { return x; }
  void load_left(const float* x, int64_t n, float* to) const { std::copy_n(x, n, to); }

  /// Until the next call: what multiply_keys() multiplies with.
  void load_keys(const Rows64& keys) {
    key_dim_ = keys.width;
    transpose(keys.data, keys.stride, kKeys, keys.width, keys_, kLogitsRow);
  }
  /// Likewise; the block must stay.
  void load_values(const Rows64& values) { values_ = values; }

  /// C [n, kLogitsRow] = queries times keys.
  void multiply_keys(const float* queries, int64_t n, float* c) const {
    small_gemm(n, kKeys, key_dim_, {queries, left_row(key_dim_)}, keys_, kLogitsRow, c, kLogitsRow, false);
  }
  /// C [n, result_row] = or += weights times values.
  void multiply_values(const float* weights, int64_t n, float* c, bool add) const {
    small_gemm(n, values_.width, kKeys, {weights, left_row(kKeys)}, values_.data, values_.stride, c,
               result_row(values_.width), add);
  }

 private:
  float* keys_;  // [key_dim, kLogitsRow]
  Rows64 values_{};
  int64_t key_dim_ = 0;
};

#ifdef KVCAL_AVX512_BF16
/// In pairs of bf16. Keys, values and queries are bf16, and so is what rounding to E4M3 or INT8 at a power of two makes
/// of them, and what it changes: only weights lose bits. Gemm: pair_gemm or tile_gemm.
template <void (*Gemm)(const PairProduct&)>
class PairSample {
 public:
  using Element = Pair;

  PairSample(int64_t key_dim, int64_t value_dim, Arena& scratch)
      : key_pairs_((key_dim + 1) / 2), value_row_(pair_row_stride(value_dim)), value_dim_(value_dim) {
    const auto pairs = [&](int64_t n) {
      auto* data = scratch.allocate({n}, DType::I32).template as<Pair>();
      std::fill_n(data, n, 0u);
      return data;
    };
    key_rows_ = pairs(kKeys * left_row(key_dim));
    keys_ = pairs(key_pairs_ * kLogitsRow);
    values_ = pairs(kKeys / 2 * value_row_);
    narrow_.resize(2 * static_cast<size_t>(value_dim));
  }

  static constexpr int64_t left_row(int64_t n) { return row_stride((n + 1) / 2); }
  static constexpr int64_t result_row(int64_t n) { return pair_row_stride(n); }

  static F32x8 weight(F32x8 x) { return rounded_to<bf16>(x); }
  void load_left(const float* x, int64_t n, Pair* to) const {
    to[(n + 1) / 2 - 1] = 0;  // the second half of the last pair of an odd width
    narrow(x, n, reinterpret_cast<bf16*>(to));
  }

  void load_keys(const Rows64& keys) {
    const int64_t row = row_stride(key_pairs_);
    for (int64_t j = 0; j < kKeys; ++j) load_left(keys.row(j), keys.width, key_rows_ + j * row);
    transpose(key_rows_, row, kKeys, key_pairs_, keys_, kLogitsRow);
  }
  void load_values(const Rows64& values) {
    for (int64_t j = 0; j < kKeys; j += 2) {
      narrow(values.row(j), value_dim_, narrow_.data());
      narrow(values.row(j + 1), value_dim_, narrow_.data() + value_dim_);
      interleave(narrow_.data(), narrow_.data() + value_dim_, value_dim_, values_ + j / 2 * value_row_);
    }
  }

  void multiply_keys(const Pair* queries, int64_t n, float* c) const {
    Gemm({n, kKeys, key_pairs_, queries, row_stride(key_pairs_), keys_, kLogitsRow, c, kLogitsRow, false});
  }
  void multiply_values(const Pair* weights, int64_t n, float* c, bool add) const {
    Gemm({n, value_dim_, kKeys / 2, weights, left_row(kKeys), values_, value_row_, c, value_row_, add});
  }

 private:
  int64_t key_pairs_, value_row_, value_dim_;
  Pair* key_rows_;            // [kKeys, row_stride(key_pairs)]
  Pair* keys_;                // [key_pairs, kLogitsRow]
  Pair* values_;              // [kKeys / 2, value_row]
  std::vector<bf16> narrow_;  // two rows of values
};
#endif

}  // namespace kvcal::cpu
