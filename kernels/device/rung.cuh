// Rounding to FP8 at the rungs of a ladder of scales (ops/attention_sample.h).
#pragma once

#include "kernels/device/e4m3.cuh"
#include "ops/attention_sample.h"

namespace kvcal::cuda {

constexpr int kLeastRung = -kMostRung;

/// 4^rung.
__device__ inline float scale_of(int rung) { return __uint_as_float(static_cast<uint32_t>(127 + 2 * rung) << 23); }

}  // namespace kvcal::cuda
