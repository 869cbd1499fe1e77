#include "ops/cpu/pair_gemm.h"

#include <immintrin.h>

#include <bit>
#include <cstring>
#include <limits>

namespace kvcal::cpu {
namespace {

constexpr int kMaxRows = 12;  // x 2 accumulators: 24 of 32 registers, enough to hide the latency

template <int M>
void block(const PairProduct& p, int64_t row, int64_t column) {
  const Pair* a = p.a + row * p.a_row;
  const Pair* b = p.b + column;
  float* c = p.c + row * p.c_row + column;
  __m512 left[M], right[M];
  for (int i = 0; i < M; ++i) {
    left[i] = p.accumulate ? _mm512_loadu_ps(c + i * p.c_row) : _mm512_setzero_ps();
    right[i] = p.accumulate ? _mm512_loadu_ps(c + i * p.c_row + 16) : _mm512_setzero_ps();
  }
  for (int64_t k = 0; k < p.n_pairs; ++k) {
    const auto b0 = std::bit_cast<__m512bh>(_mm512_loadu_si512(b)),
               b1 = std::bit_cast<__m512bh>(_mm512_loadu_si512(b + 16));
#pragma GCC unroll 12
    for (int i = 0; i < M; ++i) {
      const auto x = std::bit_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(a[i * p.a_row + k])));
      left[i] = _mm512_dpbf16_ps(left[i], x, b0);
      right[i] = _mm512_dpbf16_ps(right[i], x, b1);
    }
    b += p.b_row;
  }
  for (int i = 0; i < M; ++i) {
    _mm512_storeu_ps(c + i * p.c_row, left[i]);
    _mm512_storeu_ps(c + i * p.c_row + 16, right[i]);
  }
}

using Block = void (*)(const PairProduct&, int64_t, int64_t);
constexpr Block kBlocks[kMaxRows + 1] = {nullptr,  block<1>, block<2>, block<3>,  block<4>,  block<5>, block<6>,
                                         block<7>, block<8>, block<9>, block<10>, block<11>, block<12>};

}  // namespace

void pair_gemm(const PairProduct& p) {
  for (int64_t column = 0; column < p.n; column += kPairColumns)
    for (int64_t row = 0; row < p.m; row += kMaxRows)
      kBlocks[p.m - row < kMaxRows ? p.m - row : kMaxRows](p, row, column);
}

void interleave(const bf16* x, const bf16* y, int64_t n, Pair* pairs) {
  if (y)
    for (int64_t i = 0; i < n; ++i) pairs[i] = static_cast<Pair>(x[i].bits) | static_cast<Pair>(y[i].bits) << 16;
  else
    for (int64_t i = 0; i < n; ++i) pairs[i] = x[i].bits;
}

namespace {

/// e^x for x <= 0 within 2 ulp, NaN for NaN: scaling by 2^n underflows to zero by itself.
__m512 exp16(__m512 x) {
  const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(0x1.715476p0f)), 0);  // x / ln 2, nearest
  // ln 2 in two parts; the first has 9 bits, so that its product with n is exact. -inf: inf - inf is NaN there, and
  // is caught below.
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.63p-1f), x);
  r = _mm512_fmadd_ps(n, _mm512_set1_ps(0x1.bd0106p-13f), r);
  __m512 p = _mm512_set1_ps(1.0f / 5040);  // Taylor: |r| <= ln2/2 leaves a remainder of 5e-9
  for (const float c : {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f})
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(c));
  const __mmask16 gone = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-110.0f), _CMP_LT_OQ);  // false for NaN
  return _mm512_mask_mov_ps(_mm512_scalef_ps(p, n), gone, _mm512_setzero_ps());
}

}  // namespace

float softmax64(const float* logits, uint64_t visible, float scale, float& maximum, float& total, Pair* probabilities) {
  __m512 x[4];
  __m512 top = _mm512_set1_ps(maximum);
  for (int b = 0; b < 4; ++b) {
    const auto lanes = static_cast<__mmask16>(visible >> (16 * b));
    const __m512 none = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
    x[b] = _mm512_mask_mul_ps(none, lanes, _mm512_loadu_ps(logits + 16 * b), _mm512_set1_ps(scale));
    top = _mm512_max_ps(x[b], top);
  }
  const float next = _mm512_reduce_max_ps(top);
  for (__m512& v : x) v = exp16(_mm512_sub_ps(v, _mm512_set1_ps(next)));
  for (int b = 0; b < 2; ++b) {
    const __m512bh pairs = _mm512_cvtne2ps_pbh(x[2 * b + 1], x[2 * b]);
    std::memcpy(probabilities + 16 * b, &pairs, sizeof pairs);
  }
  const float factor = maximum == next ? 1.0f : _mm512_cvtss_f32(exp16(_mm512_set1_ps(maximum - next)));
  const float sum = _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(x[0], x[1]), _mm512_add_ps(x[2], x[3])));
  total = total * factor + sum;
  maximum = next;
  return factor;
}

void narrow(const float* x, int64_t n, bf16* y) {
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    const __m512bh v = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + i + 16), _mm512_loadu_ps(x + i));
    std::memcpy(y + i, &v, sizeof v);
  }
  for (; i < n; i += 16) {
    const auto lanes = static_cast<__mmask16>(n - i >= 16 ? 0xFFFF : (1u << (n - i)) - 1);
    const auto v = std::bit_cast<__m256i>(_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(lanes, x + i)));
    _mm256_mask_storeu_epi16(y + i, lanes, v);
  }
}

}  // namespace kvcal::cpu
