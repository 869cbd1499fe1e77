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

constexpr double kE4m3Max = 448;

/// Rungs tried for each row: the lowest at which nothing is clipped and the two above it, as scales for larger data
/// seen elsewhere; and scale 1.0.
constexpr int kSampleRungs = 4;
constexpr int kRungOfOne = 0;
constexpr int kMostRung = 48;  // beyond the range of float32 squares nothing is tried

/// 4^rung.
float scale_of_rung(int rung);

/// The lowest rung whose scale clips nothing up to absmax: 448 · 4^rung >= absmax; within +-kMostRung.
int lowest_rung(float absmax);

struct SampleRequest {
  std::span<const int32_t> rows;  // of the batch, ascending; host
  Tensor column_norms;            // F32 [n_heads, Dv]: norms of the output projection's columns
  bool one_scale = false;         // keys and values are parts of one row with one scale (MLA)
  bool shares_rungs =
      true;  // rungs that round a block of 64 keys alike are tried once; not where batches may end inside one
};

/// The figures of a sampled row and query head. |.|_w is the norm with each channel weighted by its column of the
/// output projection: what reaches the residual stream as far as columns are orthogonal.
constexpr int kFigureOutput = 0;                 // |y|_w², of the head's output y with nothing rounded
constexpr int kFigureDivergence = 1;             // [kSampleRungs]: KL(p, p'), p' with keys rounded, in nats
constexpr int kFigureChange = 1 + kSampleRungs;  // [kSampleRungs]: |y' - y|_w², y' with values rounded
constexpr int kSampleFigures = 1 + 2 * kSampleRungs;

}  // namespace kvcal
