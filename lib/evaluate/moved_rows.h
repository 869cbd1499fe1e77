// Rows of a cache moved before they are rounded, and back (variant.h, Moved). As products with small matrices, which
// round to the activation dtype: so would a server, whose attention has what comes back.
#pragma once

#include <cstdint>
#include <vector>

#include "evaluate/variant.h"
#include "ops/ops.h"

namespace kvcal {

/// What a Hadamard matrix for rows of this width is multiplied by: a power of two.
float turned_by(int64_t width);

class MovedRows {
 public:
  /// Rows of `heads` heads of `dim` channels. Refers to the ops.
  MovedRows(const SiteRounding& rounding, int64_t heads, int64_t dim, Ops& op);

  Tensor there(const Tensor& x) const { return op_.linear_per_head(x, there_); }  // [tokens, heads, dim]
  Tensor back(const Tensor& x) const { return op_.linear_per_head(x, back_); }

 private:
  Ops& op_;
  std::vector<Linear> there_, back_;
};

}  // namespace kvcal
