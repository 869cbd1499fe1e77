#include "ops/cpu/pair_gemm.h"

#include <immintrin.h>

#include <bit>
#include <cstring>

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
