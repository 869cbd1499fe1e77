// A head's row as caches of four bits store it and give it back (ops/cache_rounding.h). In place, in f32, on the host.
#pragma once

#include <span>

#include "tensor/dtype.h"

namespace kvcal {

/// CacheFormat::Uint4
void round_to_uint4(std::span<float> row);

/// CacheFormat::RotatedInt4 of activations of this type.
void round_to_rotated_int4(std::span<float> row, DType activation);

}  // namespace kvcal
