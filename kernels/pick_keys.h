// What pick_keys.cu offers, and how attention reads what it has picked.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "ops/ops.h"
#include "tensor/dtype.h"

namespace kvcal::cuda {

/// AttentionSpec::picked, [rows of the batch, pickers, words]; or null: all keys.
struct PickedKeys {
  const uint64_t* words = nullptr;
  int64_t n_words = 0;
  int64_t pickers = 1, heads = 1;  // query heads of a picker
  /// Of a row and query head: bit j of word i for key 64 i + j.
  __device__ const uint64_t* row(int64_t row, int64_t head) const {
    return words + (row * pickers + head / heads) * n_words;
  }
};

/// The keys of a block of 64 that a row sees, a bit each: from `first` to `last`, relative to the block's first key,
/// and of those the picked ones. picked: the row's words, or null.
__device__ inline uint64_t seen_keys(int64_t first, int64_t last, const uint64_t* picked, int64_t block) {
  uint64_t seen = picked ? picked[block] : ~uint64_t{0};
  if (first > 0) seen = first < kPickBits ? seen >> first << first : 0;
  const int64_t behind = kPickBits - 1 - last;
  if (behind > 0) seen = behind < kPickBits ? seen << behind >> behind : 0;
  return seen;
}

/// Rows of a slice of the batch's tokens that are of one sequence, and its keys from position 0 on.
struct PickSpan {
  int64_t row, n_tokens, first_position;
  const void* key;  // [.., dim]
};
struct PickShape {
  int64_t n_spans, longest, heads, dim;
  int64_t pickers;                       // 1 with weights, else as many as heads
  int64_t first_row;                     // of the slice, in the batch
  int64_t row_ranks, row_blocks, words;  // of a query and picker; blocks: none where a block is a key
  int64_t n_picked, block, n_local;      // as in PickSpec
};
/// q [tokens, heads, dim], weights [tokens, heads] or null -> ranks [tokens of the slice, pickers, row_ranks].
void rank_keys(DType t, const void* q, const void* weights, const PickSpan* spans, uint32_t* ranks,
               const PickShape& shape, cudaStream_t stream);
/// -> picked [tokens, pickers, words], the slice's rows of it; blocks [tokens of the slice, pickers, row_blocks]:
/// scratch.
void pick_keys(const uint32_t* ranks, uint32_t* blocks, const PickSpan* spans, uint64_t* picked, const PickShape& shape,
               cudaStream_t stream);

}  // namespace kvcal::cuda
