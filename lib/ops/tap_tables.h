// What Ops::accumulate() counts into while a layer runs: all that the statistics file keeps of one tapped site, dense,
// in the memory of the device. Integers and exact maxima only: neither the order of calls nor how rows are divided
// among them can be seen in the result.
//
// Values count as bf16. Code: the bits of |x|; octave: code >> 7; significand m: 128 + (code & 127), in octave 0
// (zeros and subnormals) code & 127. Infinity and NaN are counted by code, and are zeros for everything else.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace kvcal {

/// What is kept of each channel and octave, besides the histogram of its head.
enum class TapSums : uint8_t {
  Moments,  // values, Σm, Σm², Σ±m, and the channel's maximum
  Energy,   // Σm² alone (queries)
  None,     // nothing (states)
};

/// One site: x [tokens, heads, width]. A state is a row.
struct TapShape {
  int64_t heads = 0, width = 0;
  int64_t pairs = 0;         // of each head, whose norms are kept
  bool interleaved = false;  // pair p is channels (2p, 2p + 1), else (p, p + pairs)
  TapSums kept = TapSums::Moments;
  int64_t cells = 0;  // groups of rows whose largest value is kept: passes x prompts

  int64_t sums() const {
    return kept == TapSums::Moments ? 4 : kept == TapSums::Energy ? 1 : 0;
  }  // per channel and octave
};

/// Rows [row, row + n_tokens) of a batch: consecutive tokens at consecutive positions. Row row + i has rank
/// first_rank + i * rank_step: among equal values the one of the smallest rank counts.
struct TapRows {
  int64_t row = 0, n_tokens = 0, first_position = 0, cell = 0, first_rank = 0, rank_step = 1;
};

constexpr int64_t kTapCodes = 32768, kTapOctaves = 255, kTapBuckets = 64;

/// A place is rank * width + channel, below 2^kPlaceBits.
constexpr int kPlaceBits = 49;

/// Where the tables begin, in 64-bit words that are zero while nothing was seen.
struct TapLayout {
  int64_t absmax = 0;          // [heads]: code of the largest |x| << kPlaceBits | 2^kPlaceBits - 1 - its first place
  int64_t non_finite = 0;      // [heads]: of the first infinity or NaN: ~(place << 1 | is NaN)
  int64_t positions = 0;       // [64]: largest code at positions [2^(b-1), 2^b); bucket 0 is position 0
  int64_t cells = 0;           // [cells]: largest code
  int64_t token_octaves = 0;   // [heads, 256]: rows by the octave of their largest |x|; none of states
  int64_t channel_absmax = 0;  // [heads, width]: codes; of moments only
  int64_t pairs = 0;           // [heads, pairs]: bits of the largest a * a + b * b, a double
  int64_t codes = 0;           // [heads, 32768]: values by code
  int64_t moments = 0;         // [255 octaves, heads, sums, width]: as TapSums has them
  int64_t words = 0;           // of all
};
TapLayout layout_of(const TapShape& shape);

}  // namespace kvcal
