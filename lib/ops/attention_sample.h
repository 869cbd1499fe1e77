// What storing a cache in FP8 (E4M3) does to attention, tried out on some rows of a batch.
//
// E4M3 keeps its relative precision over a wide range of scales, so a trial needs no exact scale: keys and values are
// rounded at powers of four, the rungs of a ladder, and a scale that is chosen later is judged by the nearest rung, at
// most a factor of two away. Which rungs are tried follows from the row's own sequence alone, from what its query can
// see or could: so a trial does not depend on what else is in the batch.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/tensor.h"

namespace kvcal {

/// How a trial rounds.
enum class SampleFormat : uint8_t { E4m3, Int8 };
double largest_of(SampleFormat format);  // 448, 127

constexpr int kRungOfOne = 0;
constexpr int kMostRung = 48;  // beyond the range of float32 squares nothing is tried

/// 4^rung.
float scale_of_rung(int rung);

/// The lowest rung whose scale clips nothing up to absmax: largest · 4^rung >= absmax; within +-kMostRung.
int lowest_rung(float absmax, SampleFormat format);

/// The rungs tried for a row: `below` the lowest that clips nothing, where scales may clip on purpose, that rung and
/// `above` of those above it, as scales for larger data seen elsewhere; last of all scale 1.0.
struct RungLadder {
  int below = 0, above = 2;
  constexpr int size() const { return below + above + 2; }
  int rung(int i, int lowest) const { return i == size() - 1 ? kRungOfOne : lowest - below + i; }
};

struct SampleRequest {
  std::span<const int32_t> rows;  // of the batch, ascending; host
  Tensor column_norms;            // F32 [n_heads, Dv]: norms of the output projection's columns
  bool one_scale = false;         // keys and values are parts of one row with one scale (MLA)
  bool shares_rungs =
      true;  // rungs that round a block of 64 keys alike are tried once; not where batches may end inside one
  // For each row whether its rounded query, and what rounded keys do to its output, are tried too; empty: for none.
  std::span<const uint8_t> thorough{};
  SampleFormat format = SampleFormat::E4m3;
  int rungs_below = 0;
  Tensor stream{};  // [tokens, hidden]: the residual stream that the layer reads, whose |x|² is wanted; or absent

  RungLadder cache() const { return {rungs_below, 2}; }  // of keys and of values, from what the sequence has so far
  RungLadder query() const { return {rungs_below, 7}; }  // from the row's own query, far below the largest perhaps

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
