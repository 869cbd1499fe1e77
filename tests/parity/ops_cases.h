// Op cases as data: adding a case is adding a line. Extents lie around the edges of blocks: 8 and 16 lanes, panels of
// 32 and 256 rows, 512 and 4096 columns, chunks of 64 positions.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include "parity/op_fixture.h"

namespace kvcal::test {

struct LinearCase {
  int64_t rows, in, out;
  Fill fill;
  bool bias;
};
constexpr LinearCase kLinearCases[] = {
    {1, 64, 64, Fill::Normal, false},      {31, 70, 33, Fill::Normal, true},    {32, 128, 100, Fill::Normal, false},
    {33, 1, 1, Fill::Normal, true},        {63, 904, 65, Fill::Outliers, true}, {64, 64, 513, Fill::Normal, false},
    {65, 129, 512, Fill::Denormals, true}, {255, 96, 48, Fill::Normal, true},   {256, 64, 1030, Fill::Normal, false},
    {257, 100, 24, Fill::Outliers, true},  {5, 3072, 64, Fill::Normal, false},  {3, 5000, 70, Fill::Normal, true},
    {2, 40, 4097, Fill::Normal, false},    {7, 256, 16, Fill::Zeros, true},     {0, 64, 64, Fill::Normal, true},
};

struct NormCase {
  int64_t rows, width;
  Fill fill;
};
constexpr NormCase kNormCases[] = {
    {1, 1, Fill::Normal},   {7, 7, Fill::Normal},       {3, 8, Fill::Normal},     {2, 9, Fill::Normal},
    {5, 16, Fill::Zeros},   {7, 255, Fill::Normal},     {7, 257, Fill::Outliers}, {300, 128, Fill::Normal},
    {3, 4096, Fill::Zeros}, {2, 5000, Fill::Denormals}, {0, 128, Fill::Normal},
};

struct AttentionCase {
  int64_t tokens, n_heads, n_kv_heads, key_dim, value_dim, window;
  Fill fill;
  float softcap = 0.0f;
  bool sinks = false;
  int64_t chunk = 0;
  int64_t block = 0, block_end = 0;  // rows [block, block_end) all see each other
  int64_t pickers = 0;               // a row sees what is_picked(); 0: everything

  int64_t last_key(int64_t row) const { return row >= block && row < block_end ? block_end - 1 : row; }
};
constexpr AttentionCase kAttentionCases[] = {
    {1, 1, 1, 8, 8, 0, Fill::Normal},
    {31, 4, 2, 16, 16, 0, Fill::Normal},
    {63, 2, 2, 64, 64, 0, Fill::Normal},
    {64, 6, 2, 32, 32, 0, Fill::Outliers},
    {65, 8, 1, 40, 24, 0, Fill::Normal},
    {257, 3, 1, 128, 128, 0, Fill::Normal},
    {300, 2, 1, 20, 12, 1, Fill::Normal},
    {300, 2, 1, 16, 16, 63, Fill::Normal},
    {300, 4, 2, 16, 16, 64, Fill::Normal},
    {300, 2, 1, 16, 16, 65, Fill::Normal},
    {200, 2, 2, 33, 7, 1000, Fill::Normal},
    {70, 16, 2, 256, 256, 0, Fill::Normal},
    {90, 2, 1, 16, 16, 0, Fill::Zeros},
    {0, 2, 1, 16, 16, 0, Fill::Normal},
    {65, 4, 2, 64, 64, 0, Fill::Normal, 1.5f},
    {130, 4, 2, 64, 64, 40, Fill::Normal, 0.0f, true},
    {100, 2, 1, 40, 24, 0, Fill::Normal, 50.0f, true},
    {70, 2, 1, 512, 512, 0, Fill::Normal, 2.0f, true},
    {66, 1, 1, 320, 264, 0, Fill::Normal},
    {40, 2, 2, 520, 8, 7, Fill::Normal, 3.0f, true},
    {300, 2, 1, 16, 16, 0, Fill::Normal, 0.0f, false, 1},
    {200, 2, 1, 64, 64, 0, Fill::Normal, 0.0f, false, 64},
    {300, 4, 2, 24, 24, 0, Fill::Normal, 0.0f, false, 100},
    {150, 2, 1, 128, 128, 40, Fill::Normal, 0.0f, true, 70},
    {130, 2, 2, 40, 24, 70, Fill::Normal, 2.0f, false, 65},
    {90, 1, 1, 520, 8, 0, Fill::Normal, 0.0f, false, 33},
    {65, 2, 1, 16, 16, 0, Fill::Normal, 0.0f, false, 8192},
    {20, 2, 1, 8, 8, 0, Fill::Normal, 0.0f, false, 0, 0, 20},
    {300, 4, 2, 16, 16, 0, Fill::Normal, 0.0f, false, 0, 5, 261},
    {300, 4, 2, 64, 64, 40, Fill::Outliers, 0.0f, false, 0, 63, 129},
    {200, 4, 1, 128, 128, 0, Fill::Normal, 0.0f, true, 0, 64, 192},
    {150, 2, 1, 256, 256, 7, Fill::Normal, 3.0f, false, 0, 100, 150},
    {130, 2, 1, 520, 8, 30, Fill::Normal, 0.0f, false, 0, 3, 129},
    {130, 2, 2, 24, 40, 0, Fill::Zeros, 0.0f, false, 0, 60, 110},
    {300, 4, 4, 16, 16, 0, Fill::Normal, 0.0f, false, 0, 0, 0, 1},
    {257, 4, 2, 64, 64, 0, Fill::Normal, 0.0f, false, 0, 0, 0, 2},
    {200, 4, 2, 128, 128, 70, Fill::Normal, 2.0f, true, 0, 0, 0, 2},
    {150, 2, 2, 520, 8, 0, Fill::Normal, 0.0f, false, 0, 0, 0, 1},
    {1, 2, 1, 64, 64, 0, Fill::Normal, 0.0f, false, 0, 0, 0, 1},
};

struct ConvCase {
  int64_t tokens, channels, kernel;
  Fill fill;
  bool biased = false, silu = true;
};
constexpr ConvCase kConvCases[] = {
    {1, 5, 4, Fill::Normal},
    {2, 8, 4, Fill::Normal},
    {3, 9, 4, Fill::Outliers},
    {33, 64, 4, Fill::Normal},
    {65, 130, 3, Fill::Zeros},
    {40, 16, 1, Fill::Normal},
    {257, 24, 2, Fill::Normal},
    {0, 8, 4, Fill::Normal},
    {33, 64, 4, Fill::Normal, true},
    {70, 9, 3, Fill::Outliers, true, false},
    {5, 130, 1, Fill::Normal, false, false},
};

/// by_channel: a g for every channel of a key. decay: the typical g; -60 a step leaves nothing of the state, 0 keeps
/// everything.
struct DeltaCase {
  int64_t tokens, n_key_heads, n_value_heads, dk, dv;
  double decay;
  bool by_channel = false;
};
constexpr DeltaCase kDeltaCases[] = {
    {1, 1, 1, 2, 2, -0.5},
    {2, 1, 2, 8, 16, -0.1},
    {63, 2, 2, 16, 16, -0.01},
    {64, 1, 1, 32, 24, -1.0},
    {65, 2, 6, 12, 20, -0.1},
    {200, 1, 2, 64, 64, 0.0},
    {257, 1, 1, 128, 128, -0.05},
    {150, 1, 2, 16, 16, -60.0},
    {129, 1, 1, 72, 136, -0.2},
    {70, 1, 3, 96, 40, -0.01},
    {66, 1, 1, 200, 16, -0.1},
    {130, 1, 1, 16, 16, -3000.0},
    {0, 1, 1, 8, 8, -0.1},
    {1, 1, 1, 2, 2, -0.5, true},
    {65, 2, 6, 12, 20, -0.1, true},
    {64, 1, 2, 64, 72, -1.0, true},
    {150, 2, 2, 128, 16, -0.05, true},
    {130, 1, 1, 16, 16, -60.0, true},
    {130, 1, 1, 33, 9, -3000.0, true},
    {257, 1, 1, 128, 128, -0.05, true},
    {70, 1, 3, 96, 40, -0.01, true},
    {47, 2, 2, 16, 136, -3000.0, true},
    {33, 1, 2, 64, 64, 0.0, true},
    {0, 1, 1, 8, 8, -0.1, true},
};

struct SsdCase {
  int64_t tokens, heads, groups, head_dim, n_state;
  double a_log;  // typical; large: a state that is forgotten at once
};
constexpr SsdCase kSsdCases[] = {
    {1, 1, 1, 2, 2, 0.0},       {63, 2, 1, 16, 16, -2.0},   {64, 4, 2, 8, 24, -1.0},
    {65, 3, 3, 12, 20, 0.0},    {200, 2, 1, 64, 128, -4.0}, {130, 1, 1, 72, 64, -30.0},
    {70, 2, 1, 128, 256, -3.0}, {150, 2, 1, 16, 16, 8.0},   {0, 1, 1, 8, 8, 0.0},
};

struct ScanCase {
  int64_t tokens, channels, n_state;
};
constexpr ScanCase kScanCases[] = {{1, 1, 1},     {17, 130, 16}, {100, 5, 7}, {33, 40, 20},
                                   {16, 128, 16}, {20, 33, 256}, {0, 8, 16}};

/// skewed: nearly all tokens choose expert 1, and none the last one.
struct MoeCase {
  int64_t tokens, dim, ffn, n_experts, k;
  bool renormalize;
  bool skewed = false;
  Activation act = Activation::Silu;
  bool gated = true, biased = false;
};
constexpr MoeCase kMoeCases[] = {
    {1, 32, 16, 4, 1, false},
    {5, 40, 24, 8, 2, true},
    {70, 64, 48, 3, 2, true},
    {90, 64, 32, 16, 4, false},
    {33, 33, 17, 2, 2, true},
    {0, 32, 16, 4, 2, true},
    {600, 8, 16, 5, 1, false, true},
    {70, 16, 8, 40, 3, true, true},
    {1, 8, 8, 300, 8, true, true},
    {130, 136, 72, 2, 2, true},
    {600, 16, 8, 2, 1, false, true, Activation::GeluTanh},
    {20, 40, 24, 5, 2, true, false, Activation::Clamped, true, true},
    {20, 40, 24, 5, 2, true, false, Activation::Capped},
    {20, 33, 17, 5, 2, true, false, Activation::Gelu, true, true},
    {20, 40, 24, 5, 2, true, false, Activation::Relu2, false, false},
    {20, 40, 24, 5, 2, true, false, Activation::Gelu, false, true},
    {560, 328, 136, 2, 1, false},  // more than a tile of 128 by 256 that is four times 64 deep
};

// For the names of tests.

inline std::string numbers(std::initializer_list<int64_t> values) {
  std::string text;
  for (const int64_t v : values) text += (text.empty() ? "" : " ") + std::to_string(v);
  return text;
}
inline void PrintTo(const LinearCase& c, std::ostream* out) {
  *out << numbers({c.rows, c.in, c.out}) << ' ' << name_of(c.fill) << (c.bias ? " bias" : "");
}
inline void PrintTo(const NormCase& c, std::ostream* out) {
  *out << numbers({c.rows, c.width}) << ' ' << name_of(c.fill);
}
inline void PrintTo(const AttentionCase& c, std::ostream* out) {
  *out << numbers({c.tokens, c.n_heads, c.n_kv_heads, c.key_dim, c.value_dim, c.window}) << ' ' << name_of(c.fill);
  if (c.softcap > 0.0f) *out << " softcap " << c.softcap;
  if (c.sinks) *out << " sinks";
  if (c.chunk > 0) *out << " chunk " << c.chunk;
  if (c.block_end > 0) *out << " block " << c.block << " to " << c.block_end;
}
inline void PrintTo(const ConvCase& c, std::ostream* out) {
  *out << numbers({c.tokens, c.channels, c.kernel}) << ' ' << name_of(c.fill) << (c.biased ? " biased" : "")
       << (c.silu ? "" : " linear");
}
inline void PrintTo(const DeltaCase& c, std::ostream* out) {
  *out << numbers({c.tokens, c.n_key_heads, c.n_value_heads, c.dk, c.dv}) << " decay " << c.decay
       << (c.by_channel ? " by channel" : "");
}
inline void PrintTo(const SsdCase& c, std::ostream* out) {
  *out << numbers({c.tokens, c.heads, c.groups, c.head_dim, c.n_state}) << " a_log " << c.a_log;
}
inline void PrintTo(const ScanCase& c, std::ostream* out) { *out << numbers({c.tokens, c.channels, c.n_state}); }
inline void PrintTo(const MoeCase& c, std::ostream* out) {
  *out << numbers({c.tokens, c.dim, c.ffn, c.n_experts, c.k}) << (c.renormalize ? " renormalized" : "")
       << (c.skewed ? " skewed" : "") << (c.biased ? " biased" : "") << (c.gated ? "" : " without gates")
       << " activation " << static_cast<int>(c.act);
}

}  // namespace kvcal::test
