// What a device keeps until a layer is done, copied to the host.
#pragma once

#include "ops/ops.h"

namespace kvcal {

/// As it was at the mark; waits for no later work.
inline Storage fetched(Ops& op, const Ops::Mark& mark, const Tensor& from) {
  Storage copy(from.shape, from.dtype);
  op.download_at(mark, from, copy.tensor());
  return copy;
}

}  // namespace kvcal
