// What storing a cache in FP8 (E4M3) or INT8 does to attention, tried out on some rows of a batch.
//
// Keys, values and queries are rounded at powers of two, the rungs of a ladder, and a scale that is one of them is
// judged by what was measured at it. Which rungs are tried follows from the row's own sequence alone, from what its
// query can see or could: so a trial does not depend on what else is in the batch.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/tensor.h"

namespace kvcal {

/// How a trial rounds.
enum class SampleFormat : uint8_t { E4m3, Int8 };
double largest_of(SampleFormat format);  // 448, 127

constexpr int kRungOfOne = 0;
constexpr int kLeastRung = -96, kMostRung = 96;  // beyond the range of float32 squares nothing is tried

/// 2^rung.
float scale_of_rung(int rung);

/// The lowest rung whose scale clips nothing up to absmax: largest · 2^rung >= absmax; within the range of rungs.
int lowest_rung(float absmax, SampleFormat format);

/// The rungs tried for a row: `below` the lowest that clips nothing, where scales may clip on purpose, that rung and
/// `above` of those above it, as scales for larger data seen elsewhere; last of all scale 1.0. None is above `most` and
/// more than `beyond` above the lowest: there the slots that are left repeat the last.
struct RungLadder {
  int below = 0, above = 10, beyond = 4, most = kRungOfOne;

  constexpr int size() const { return below + above + 2; }
  /// The highest, where the ladder is long enough.
  constexpr int top(int lowest) const { return lowest + beyond > most ? lowest + beyond : most; }
  constexpr int rung(int i, int lowest) const {
    if (i == size() - 1) return kRungOfOne;
    const int own = lowest - below + i, top_rung = top(lowest);
    return own < top_rung ? own : top_rung;
  }
  /// Whether slot i is at the rung of one before it.
  constexpr bool repeats(int i, int lowest) const {
    if (i == 0) return false;
    if (i < size() - 1) return rung(i, lowest) == rung(i - 1, lowest);
    return rung(0, lowest) <= kRungOfOne && kRungOfOne <= rung(i - 1, lowest);
  }
};

// In E4M3 rungs differ only for values that are clipped or subnormal at one of them. Where hardly any are, from the
// lowest rung that clips nothing to one that is called `alike`, all of them are tried as one. That is found in blocks
// of 64 tokens at multiples of 64 and in the last 64 tokens that a row can see: at most one of 16 values other than
// zero is subnormal in each channel and in each token. Of a query no value is. Whole numbers are never alike.
constexpr int kAlikeTokens = 64, kFewSubnormal = 16;
constexpr int kNormalExponent = 6;  // 2^-6 times the scale is E4M3's least normal value
constexpr int kNoneAlike = kLeastRung - 1;

/// The rung that is tried for one of a ladder: of those that round alike the nearest to 1.0.
constexpr int tried_rung(int rung, int lowest, int alike) {
  if (rung < lowest || rung > alike) return rung;
  return alike < kRungOfOne ? alike : lowest > kRungOfOne ? lowest : kRungOfOne;
}

struct SampleRequest {
  std::span<const int32_t> rows;  // of the batch, ascending; host
  Tensor column_norms;            // F32 [n_heads, Dv]: norms of the output projection's columns
  bool one_scale = false;         // keys and values are parts of one row with one scale (MLA)
  // For each row whether its rounded query, and what rounded keys do to its output, are tried too; empty: for none.
  std::span<const uint8_t> thorough{};
  SampleFormat format = SampleFormat::E4m3;
  int rungs_below = 0;
  Tensor stream{};  // [tokens, hidden]: the residual stream that the layer reads, whose |x|² is wanted; or absent

  RungLadder cache() const { return {rungs_below}; }  // of keys and of values, from what the sequence has so far
  RungLadder query() const { return {rungs_below, 14, 8, 5}; }  // from the row's own, far below the largest perhaps

  // The figures of a sampled row and query head. |.|_w is the norm with each channel weighted by its column of the
  // output projection: what reaches the residual stream as far as columns are orthogonal.
  int output() const { return 0; }                         // |y|_w², of the head's output y with nothing rounded
  int key_divergence() const { return 1; }                 // [cache]: KL(p, p'), p' with keys rounded, in nats
  int value_change() const { return 1 + cache().size(); }  // [cache]: |y' - y|_w², y' with values rounded
  // Of thorough rows; else -1.
  int query_divergence() const { return 1 + 2 * cache().size(); }         // [query]: KL(p, p'), with the query rounded
  int key_change() const { return query_divergence() + query().size(); }  // [cache]: |y' - y|_w², y' with keys rounded
  int n_figures() const { return key_change() + cache().size(); }
};

/// The same of a request with nothing below the lowest rung and no row thorough.
constexpr int kSampleRungs = RungLadder{}.size(), kFigureOutput = 0, kFigureDivergence = 1,
              kFigureChange = kFigureDivergence + kSampleRungs, kSampleFigures = kFigureChange + kSampleRungs;

}  // namespace kvcal
