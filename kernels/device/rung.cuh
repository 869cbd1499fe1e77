// Rounding to FP8 or INT8 at the rungs of a ladder of scales (ops/attention_sample.h).
#pragma once

#include "kernels/device/small_floats.cuh"
#include "ops/attention_sample.h"

namespace kvcal::cuda {

constexpr int kLeastRung = -kMostRung;

/// 4^rung.
__device__ inline float scale_of(int rung) { return __uint_as_float(static_cast<uint32_t>(127 + 2 * rung) << 23); }

/// scale · rounded(x / scale) at a rung; x itself where it is none.
struct Rounding {
  float scale = 0.0f, inverse = 0.0f;
  bool whole = false;  // INT8

  __device__ float operator()(float x) const {
    if (scale == 0.0f) return x;
    return (whole ? rounded_to_int8(x * inverse) : rounded_to_e4m3(x * inverse)) * scale;
  }
};

__device__ inline Rounding rounding_at(int rung, SampleFormat format) {
  return {scale_of(rung), scale_of(-rung), format == SampleFormat::Int8};
}

/// Slots [first, first + n) of a ladder, and their rungs for a row whose lowest is given (RungLadder::rung).
struct Slots {
  int below, size;  // of the ladder
  int first, n;

  __device__ int rung(int i, int lowest) const {
    return first + i == size - 1 ? kRungOfOne : lowest - below + first + i;
  }
};

}  // namespace kvcal::cuda
