// What formats whose scales follow the data would make of some rows: FP8 E4M3 and INT4 with one scale for each token
// and head, and NVFP4. Histograms cannot tell, since such a scale depends on what else is in the row.
//
// The rows are those that attention is sampled on. They are rounded to bf16 first, as everything that is counted, and
// judged each alone:
// - dynamic E4M3: the scale is the row's absmax / 448;
// - NVFP4: blocks of 16 channels (the last may be shorter) of E2M1 numbers, scaled by block absmax / 6 as E4M3 times a
//   global scale. A cache has one global scale, absmax / (6 · 448) of all that it will ever hold. Here the power of two
//   above the row's absmax stands in for that absmax: the rounding of the block scales repeats from one power of two to
//   the next, so it is that of any larger range but for the place within an octave; what is lost is only that block
//   scales 2^18 times smaller than the largest ones would become zero.
// - INT4: as vLLM's cache int4_per_token_head stores rows of bf16 (CacheFormat::RotatedInt4).
//
// Sums are of fixed-point numbers in units of the row's own magnitude, so they are exact, neither overflow nor vanish,
// and do not depend on the order of rows, batches or shards.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "tensor/tensor.h"

namespace kvcal {

/// Rows of one head (of a part of its channels) whose energy |x|² lies in [2^n, 2^(n + 1)), n = octave - 1023. All sums
/// are in units of 2^(n - 32).
struct RowFormatSum {
  int32_t head = 0;
  int32_t octave = 0;  // 0: rows without a value but zero, whose sums are 0
  uint64_t rows = 0;
  uint64_t energy = 0;         // Σ|x|²
  uint64_t dynamic_error = 0;  // Σ|x' - x|², x' stored as dynamic E4M3
  uint64_t nvfp4_error = 0;
  std::optional<uint64_t> int4_error = std::nullopt;  // none: not tried
  auto key() const { return std::pair(head, octave); }
  bool operator==(const RowFormatSum&) const = default;
};

/// Octaves that rows of bf16 numbers can have, and rows whose sums cannot overflow.
constexpr int32_t kLeastEnergyOctave = 1023 - 600, kMostEnergyOctave = 1023 + 300;
constexpr uint64_t kMostFormatRows = uint64_t{1} << 30;

/// Puts b into a; both have the same key.
void add(RowFormatSum& a, const RowFormatSum& b);

/// The same sums as real numbers: of all rows of one head, or of an octave of it.
struct RowFormatEnergies {
  uint64_t rows = 0;
  double energy = 0, dynamic_error = 0, nvfp4_error = 0;
  std::optional<double> int4_error = 0;  // none where some rows were not tried
};
RowFormatEnergies energies_of(std::span<const RowFormatSum> sums, int32_t head);

/// Of one site, or of a latent row, whose parts share a scale and are summed apart.
class RowFormatTables {
 public:
  /// Adds rows of x [tokens, heads, Σ part_widths], BF16 or F32, on the host. Heads are shared out to the pool's
  /// threads. Rows with infinities or NaNs are left out: their run fails. Every call has the same heads and parts. INT4
  /// is tried on rows of one part that can be turned (ops/rotation_signs.h): no server stores rows of MLA in it.
  void add(const Tensor& x, std::span<const int32_t> rows, std::span<const int64_t> part_widths, ThreadPool& pool);

  /// Sorted by key().
  std::vector<RowFormatSum> encode(size_t part) const;

 private:
  using Sums = std::map<int32_t, RowFormatSum>;  // by octave
  std::vector<std::vector<Sums>> sums_;          // by head and part
};

}  // namespace kvcal
