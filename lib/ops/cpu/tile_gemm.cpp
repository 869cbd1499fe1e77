// pair_gemm on AMX tiles of 16 rows x 64 bytes: two of A, two of B, four of C at a time.
#include <immintrin.h>

#include <algorithm>

#include "ops/cpu/pair_gemm.h"

namespace kvcal::cpu {
namespace {

constexpr int64_t kTileRows = 16, kTileBytes = 64;

/// The operand of ldtilecfg.
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// C 0 to 3: upper left, upper right, lower left, lower right. A 4, 5: upper, lower. B 6, 7: left, right.
void configure(int64_t upper, int64_t lower) {
  TileConfig config;
  const int64_t rows[] = {upper, upper, lower, lower, upper, lower, kTileRows, kTileRows};
  for (int tile = 0; tile < 8; ++tile) {
    config.rows[tile] = static_cast<uint8_t>(rows[tile]);
    config.row_bytes[tile] = rows[tile] > 0 ? kTileBytes : 0;
  }
  _tile_loadconfig(&config);
}

/// Up to 16 or 32 rows by 32 columns, from `row` and `column` on.
template <bool kLower>
void block(const PairProduct& p, int64_t row, int64_t column) {
  const Pair* a = p.a + row * p.a_row;
  const Pair* b = p.b + column;
  float* c = p.c + row * p.c_row + column;
  float* lower_c = c + kTileRows * p.c_row;
  const auto a_bytes = static_cast<size_t>(p.a_row) * sizeof(Pair),
             b_bytes = static_cast<size_t>(p.b_row) * sizeof(Pair),
             c_bytes = static_cast<size_t>(p.c_row) * sizeof(float);
  if (p.accumulate) {
    _tile_loadd(0, c, c_bytes);
    _tile_loadd(1, c + kTileRows, c_bytes);
    if constexpr (kLower) {
      _tile_loadd(2, lower_c, c_bytes);
      _tile_loadd(3, lower_c + kTileRows, c_bytes);
    }
  } else {
    _tile_zero(0);
    _tile_zero(1);
    if constexpr (kLower) {
      _tile_zero(2);
      _tile_zero(3);
    }
  }
  for (int64_t k = 0; k < p.n_pairs; k += kTilePairs) {
    _tile_loadd(4, a + k, a_bytes);
    _tile_loadd(6, b + k * p.b_row, b_bytes);
    _tile_loadd(7, b + k * p.b_row + kTileRows, b_bytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if constexpr (kLower) {
      _tile_loadd(5, a + kTileRows * p.a_row + k, a_bytes);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, c, c_bytes);
  _tile_stored(1, c + kTileRows, c_bytes);
  if constexpr (kLower) {
    _tile_stored(2, lower_c, c_bytes);
    _tile_stored(3, lower_c + kTileRows, c_bytes);
  }
}

template <bool kLower>
void row_of_blocks(const PairProduct& p, int64_t row) {
  for (int64_t column = 0; column < p.n; column += kPairColumns) block<kLower>(p, row, column);
}

}  // namespace

void tile_gemm(const PairProduct& p) {
  if (p.n_pairs % kTilePairs != 0) return pair_gemm(p);
  const int64_t whole = p.m / (2 * kTileRows) * (2 * kTileRows), rest = p.m - whole;
  if (whole > 0) configure(kTileRows, kTileRows);
  for (int64_t row = 0; row < whole; row += 2 * kTileRows) row_of_blocks<true>(p, row);
  if (rest > 0) configure(std::min(rest, kTileRows), std::max<int64_t>(rest - kTileRows, 0));
  if (rest > kTileRows)
    row_of_blocks<true>(p, whole);
  else if (rest > 0)
    row_of_blocks<false>(p, whole);
  _tile_release();
}

}  // namespace kvcal::cpu
