// Rows of a cache moved before they are rounded, and back (variant.h, Moved). As products with small matrices, so that
// no backend knows of it; in bf16 each rounds once, which a server's kernel might not.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "evaluate/variant.h"
#include "ops/ops.h"

namespace kvcal {

/// What a Hadamard matrix for rows of this width is multiplied by: a power of two.
float turned_by(int64_t width);

/// Matrices that rows of all layers share, by what they do and their width: there and back. A few in all, some MiB at
/// most.
using MovingMatrices = std::map<std::pair<Moved, int64_t>, std::pair<Linear, Linear>>;

class MovedRows {
 public:
  /// Rows of `heads` heads of `dim` channels. Takes its matrices from those that are there, or adds them. Refers to the
  /// ops.
  MovedRows(const SiteRounding& rounding, int64_t heads, int64_t dim, MovingMatrices& matrices, Ops& op);

  Tensor there(const Tensor& x) const { return op_.linear_per_head(x, there_); }  // [tokens, heads, dim]
  Tensor back(const Tensor& x) const { return op_.linear_per_head(x, back_); }

 private:
  Ops& op_;
  std::vector<Linear> there_, back_;
};

}  // namespace kvcal
