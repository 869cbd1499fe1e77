// The two products of attention against one block of keys and values, in the two forms a processor may prefer.
//
// Both keep a task's queries, load one block of keys and values at a time, and own the rows of logits and of
// probabilities, the latter in the type that the second product takes; so they do the softmax between the two as well.
// All work on rows [row, row + n) of the task.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>

#include "ops/cpu/small_gemm.h"
#include "tensor/arena.h"
#include "tensor/small_floats.h"
#ifdef KVCAL_AVX512_BF16
#include "ops/cpu/pair_gemm.h"
#endif

namespace kvcal::cpu {

constexpr int64_t kKeys = 64;  // positions of a key block
constexpr int64_t kLogitsRow = row_stride(kKeys);

/// Key and value rows of one head, `n` of them, kKeys at most; the rest of the block counts as zeros.
template <class T>
struct KeyBlock {
  const T *key, *value;              // of the first position
  int64_t key_stride, value_stride;  // elements from one position to the next
  int64_t n;
};

/// The keys of a block that a row sees, a bit each: those from `first` to before `last`.
inline uint64_t seen_keys(int64_t first, int64_t last) {
  const auto below = [](int64_t n) { return n <= 0 ? 0 : n >= kKeys ? ~uint64_t{0} : (uint64_t{1} << n) - 1; };
  return below(last) & ~below(first);
}

/// Of lanes [from, from + 8) of a block: all ones in those that are seen.
inline I32x8 seen_lanes(uint64_t seen, int64_t from) {
  constexpr I32x8 kBits = {1, 2, 4, 8, 16, 32, 64, 128};
  const auto byte = static_cast<int32_t>((seen >> from) & 255);
  return (kBits & byte) != 0;
}

/// Of the online softmax of one row: the largest logit so far, and the sum of the exponentials below it.
struct RowState {
  float maximum = -std::numeric_limits<float>::infinity(), total = 0.0f;
};

/// How logits become probabilities.
struct SoftmaxForm {
  float scale;   // multiplies logits
  float factor;  // ProbabilityRounding's
};

inline F32x8 in_e4m3(F32x8 p, float factor) {
  for (int i = 0; i < kLanes; ++i) p[i] = round_to_e4m3(p[i] * factor) / factor;
  return p;
}

constexpr int64_t kServedKeys = 32;  // that servers' kernels take at a time where they round probabilities

/// Logits of so many keys -> rounded probabilities below the largest so far. Returns the factor for all before.
inline float softmax_in_e4m3(float* logits, uint64_t seen, const SoftmaxForm& form, RowState& state) {
  if ((seen & 0xFFFFFFFFu) == 0) {
    std::fill_n(logits, kServedKeys, 0.0f);
    return 1.0f;
  }
  F32x8 top = splat(state.maximum), sums{};
  for (int64_t j = 0; j < kServedKeys; j += kLanes) {
    const F32x8 s = load8(logits + j) * form.scale;
    store8(logits + j, seen_lanes(seen, j) ? s : splat(-std::numeric_limits<float>::infinity()));
    top = larger(load8(logits + j), top);
  }
  const float next = largest(top);
  for (int64_t j = 0; j < kServedKeys; j += kLanes) {
    const F32x8 p = exp(load8(logits + j) - next);
    sums += p;
    store8(logits + j, in_e4m3(p, form.factor));
  }
  const float factor = state.maximum == next ? 1.0f : exp(splat(state.maximum - next))[0];
  state = {next, state.total * factor + sum(sums)};
  return factor;
}

/// logits -> c tanh(logit · scale / c), rows at distance kLogitsRow. tanh by its sign: the exponential never overflows.
inline void cap_logits(float* logits, int64_t n_rows, float scale, float softcap) {
  const float factor = scale / softcap;
  for (int64_t r = 0; r < n_rows; ++r)
    for (int64_t j = 0; j < kKeys; j += kLanes) {
      float* at = logits + r * kLogitsRow + j;
      const F32x8 x = load8(at) * factor, size = x < 0.0f ? -x : x, e = exp(size * -2.0f);
      const F32x8 y = (1.0f - e) / (1.0f + e) * softcap;
      store8(at, x < 0.0f ? -y : y);
    }
}

/// Everything widened to f32.
template <class T>
class WideProducts {
 public:
  WideProducts(int64_t n_rows, int64_t key_dim, int64_t value_dim, Arena& scratch)
      : key_dim_(key_dim), value_dim_(value_dim), query_row_(row_stride(key_dim)), output_row_(row_stride(value_dim)) {
    const auto floats = [&](int64_t n) { return scratch.allocate({n}, DType::F32).template as<float>(); };
    query_ = floats(n_rows * query_row_);
    keys_ = floats(key_dim * kLogitsRow);
    values_ = floats(kKeys * output_row_);
    key_rows_ = floats(kKeys * query_row_);
    logits_ = floats(n_rows * kLogitsRow);
    std::fill_n(values_, kKeys * output_row_, 0.0f);  // columns beyond the value width are multiplied too, and dropped
  }

  int64_t output_row() const { return output_row_; }
  void load_query(int64_t row, const T* q) { copy_wide(q, query_ + row * query_row_, key_dim_); }

  void load_keys(const KeyBlock<T>& block) {
    if (block.n < kKeys) {
      std::fill_n(keys_, key_dim_ * kLogitsRow, 0.0f);
      std::fill_n(values_, kKeys * output_row_, 0.0f);
    }
    for (int64_t j = 0; j < block.n; ++j) {
      copy_wide(block.value + j * block.value_stride, values_ + j * output_row_, value_dim_);
      copy_wide(block.key + j * block.key_stride, key_rows_ + j * query_row_, key_dim_);
    }
    transpose(key_rows_, query_row_, block.n, key_dim_, keys_, kLogitsRow);
  }

  void multiply_keys(int64_t row, int64_t n) const {
    small_gemm(n, kKeys, key_dim_, {query_ + row * query_row_, query_row_}, keys_, kLogitsRow,
               logits_ + row * kLogitsRow, kLogitsRow, false);
  }
  void cap(int64_t row, int64_t n, float scale, float softcap) const {
    cap_logits(logits_ + row * kLogitsRow, n, scale, softcap);
  }
  /// A row's logits -> probabilities against the new maximum. Returns the factor for the output so far. The maximum may
  /// miss a NaN, but that logit's own probability is NaN, and with it the total and the output.
  float softmax(int64_t row, uint64_t seen, const SoftmaxForm& form, RowState& state) const {
    if (form.factor > 0.0f) return softmax_in_e4m3(row, seen, form, state);
    constexpr int kVectors = kKeys / kLanes;
    float* logits = logits_ + row * kLogitsRow;  // the probabilities take their place
    F32x8 s[kVectors];
    for (int b = 0; b < kVectors; ++b) s[b] = load8(logits + b * kLanes) * form.scale;
    if (seen != ~uint64_t{0})
      for (int b = 0; b < kVectors; ++b)
        s[b] = seen_lanes(seen, b * kLanes) ? s[b] : splat(-std::numeric_limits<float>::infinity());
    F32x8 top = splat(state.maximum);
    for (int b = 0; b < kVectors; ++b) top = larger(s[b], top);
    const float next = largest(top);
    F32x8 sums{};
    for (int b = 0; b < kVectors; ++b) {
      const F32x8 p = exp(s[b] - next);
      sums += p;
      store8(logits + b * kLanes, rounded_to<T>(p));
    }
    const float factor = state.maximum == next ? 1.0f : exp(splat(state.maximum - next))[0];
    state = {next, state.total * factor + sum(sums)};
    return factor;
  }

  float softmax_in_e4m3(int64_t row, uint64_t seen, const SoftmaxForm& form, RowState& state) const {
    float* logits = logits_ + row * kLogitsRow;
    float factor = 1.0f;
    for (int64_t begin = 0; begin < kKeys; begin += kServedKeys) {
      const float fade = cpu::softmax_in_e4m3(logits + begin, seen >> begin, form, state);
      for (int64_t j = 0; j < begin; ++j) logits[j] *= fade;
      factor *= fade;
    }
    return factor;
  }

  /// In place of softmax() where a row sees no key of the block.
  void clear(int64_t row) const { std::fill_n(logits_ + row * kLogitsRow, kKeys, 0.0f); }

  /// output F32 [n, output_row] += probabilities times values.
  void add_values(int64_t row, int64_t n, float* output) const {
    small_gemm(n, value_dim_, kKeys, {logits_ + row * kLogitsRow, kLogitsRow}, values_, output_row_, output,
               output_row_, true);
  }

 private:
  int64_t key_dim_, value_dim_, query_row_, output_row_;
  float* query_;     // [n_rows, query_row_]
  float* keys_;      // [key_dim, kLogitsRow]
  float* values_;    // [kKeys, output_row_]
  float* key_rows_;  // [kKeys, query_row_]
  float* logits_;    // [n_rows, kLogitsRow]
};

#ifdef KVCAL_AVX512_BF16
/// bf16 as it is, in pairs along the summed dimension. Gemm: pair_gemm or tile_gemm.
template <void (*Gemm)(const PairProduct&)>
class PairProducts {
 public:
  PairProducts(int64_t n_rows, int64_t key_dim, int64_t value_dim, Arena& scratch)
      : key_dim_(key_dim),
        value_dim_(value_dim),
        key_pairs_((key_dim + 1) / 2),
        query_row_(row_stride(key_pairs_)),
        output_row_(pair_row_stride(value_dim)) {
    const auto pairs = [&](int64_t n) { return scratch.allocate({n}, DType::I32).template as<Pair>(); };
    query_ = pairs(n_rows * query_row_);
    keys_ = pairs(key_pairs_ * kLogitsRow);
    values_ = pairs(kKeys / 2 * output_row_);
    key_rows_ = pairs(kKeys * query_row_);
    probabilities_ = pairs(n_rows * kProbabilityRow);
    logits_ = scratch.allocate({n_rows * kLogitsRow}, DType::F32).as<float>();
    std::fill_n(values_, kKeys / 2 * output_row_, 0u);
  }

  int64_t output_row() const { return output_row_; }
  void load_query(int64_t row, const bf16* q) { load_row(q, query_ + row * query_row_); }

  void load_keys(const KeyBlock<bf16>& block) {
    if (block.n < kKeys) {
      std::fill_n(keys_, key_pairs_ * kLogitsRow, 0u);
      std::fill_n(values_, kKeys / 2 * output_row_, 0u);
    }
    for (int64_t j = 0; j < block.n; ++j) load_row(block.key + j * block.key_stride, key_rows_ + j * query_row_);
    transpose(key_rows_, query_row_, block.n, key_pairs_, keys_, kLogitsRow);
    for (int64_t j = 0; j < block.n; j += 2) {
      const bf16* row = block.value + j * block.value_stride;
      interleave(row, j + 1 < block.n ? row + block.value_stride : nullptr, value_dim_, values_ + j / 2 * output_row_);
    }
  }

  void multiply_keys(int64_t row, int64_t n) const {
    Gemm({n, kKeys, key_pairs_, query_ + row * query_row_, query_row_, keys_, kLogitsRow, logits_ + row * kLogitsRow,
          kLogitsRow, false});
  }
  void cap(int64_t row, int64_t n, float scale, float softcap) const {
    cap_logits(logits_ + row * kLogitsRow, n, scale, softcap);
  }
  /// In bf16, which the product takes: not for a ProbabilityRounding.
  float softmax(int64_t row, uint64_t seen, const SoftmaxForm& form, RowState& state) const {
    return softmax64(logits_ + row * kLogitsRow, seen, form.scale, state.maximum, state.total,
                     probabilities_ + row * kProbabilityRow);
  }
  void clear(int64_t row) const { std::fill_n(probabilities_ + row * kProbabilityRow, kKeys / 2, Pair{0}); }

  /// output F32 [n, output_row] += probabilities times values.
  void add_values(int64_t row, int64_t n, float* output) const {
    Gemm({n, value_dim_, kKeys / 2, probabilities_ + row * kProbabilityRow, kProbabilityRow, values_, output_row_,
          output, output_row_, true});
  }

 private:
  static constexpr int64_t kProbabilityRow = row_stride(kKeys / 2);

  void load_row(const bf16* from, Pair* to) const {
    to[key_pairs_ - 1] = 0;  // the second half of the last pair of an odd width
    std::memcpy(to, from, static_cast<size_t>(key_dim_) * sizeof(bf16));
  }

  int64_t key_dim_, value_dim_, key_pairs_, query_row_, output_row_;
  Pair* query_;          // [n_rows, query_row_]
  Pair* keys_;           // [key_pairs, kLogitsRow]
  Pair* values_;         // [kKeys / 2, output_row_]
  Pair* key_rows_;       // [kKeys, query_row_]
  Pair* probabilities_;  // [n_rows, kProbabilityRow]
  float* logits_;        // [n_rows, kLogitsRow]
};
#endif

}  // namespace kvcal::cpu
