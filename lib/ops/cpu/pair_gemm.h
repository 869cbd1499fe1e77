// Attention's inner loops for processors that multiply pairs of bf16 (AVX-512 BF16): small products of bf16 matrices
// into f32 at twice the rate of small_gemm, without widening anything first, and the softmax between them.
//
// Every element of C is one chain over the pairs of k in ascending order, whatever the extents and wherever the element
// lies: as in small_gemm, a row's result does not depend on its neighbours.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace kvcal::cpu {

/// Two bf16 that are neighbours along k; the first in the lower half.
using Pair = uint32_t;

/// Columns are handled 32 at a time: rows of B and C need room for n rounded up to this.
constexpr int64_t kPairColumns = 32;

/// Distance of rows for n columns: padded, and not a multiple of the cache's set stride.
constexpr int64_t pair_row_stride(int64_t n) { return (n + kPairColumns - 1) / kPairColumns * kPairColumns + 16; }

/// C F32 [m, n] = A [m, k] B [k, n], or C += if accumulate. A is row-major in pairs, [m, n_pairs]; B has its pairs
/// along k too, [n_pairs, n]. Row distances in elements of each. Needs AVX-512 BF16.
struct PairProduct {
  int64_t m, n, n_pairs;
  const Pair* a;
  int64_t a_row;
  const Pair* b;
  int64_t b_row;
  float* c;
  int64_t c_row;
  bool accumulate;
};
void pair_gemm(const PairProduct& p);

/// The same on tiles, which add two products of a pair before they add them to the chain. Needs AMX BF16 and the
/// system's leave to use it, which oneDNN asks for. Products whose n_pairs is no multiple of kTilePairs go to
/// pair_gemm.
constexpr int64_t kTilePairs = 16;
void tile_gemm(const PairProduct& p);

/// Rows x and y, n bf16 each -> n pairs (x[i], y[i]); null y = zeros.
void interleave(const bf16* x, const bf16* y, int64_t n, Pair* pairs);

/// One step of an online softmax over 64 logits, of which those count whose bit is set: x = logit * scale, maximum and
/// total brought up to date, e^(x - maximum) as bf16 in 32 pairs. Returns e^(old maximum - new): the factor for what
/// was summed before.
float softmax64(const float* logits, uint64_t visible, float scale, float& maximum, float& total, Pair* probabilities);

/// n floats -> bf16 as the processor rounds: nearest, ties to even; subnormal numbers become zero.
void narrow(const float* x, int64_t n, bf16* y);

}  // namespace kvcal::cpu
