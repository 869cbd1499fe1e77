// Rounding to FP8 or INT8 at the rungs of a ladder of scales (ops/attention_sample.h).
#pragma once

#include "kernels/device/pairs.cuh"
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

// Bits of bf16; the last are what a factor of four adds to those of a number.
constexpr uint32_t kOneBits = 0x3F80, kSixteenBits = 0x4180, kTwentyFourBits = 0x41C0, kSignBit = 0x8000,
                   kExponentBits = 0x7F80, kFourTimes = 2 << 7;

/// The same of two bf16 in a register, for which it is exact. To a magnitude is added, and taken off again, sixteen
/// times its power of two, of which the last bit is the step that E4M3 has there: bf16's sum rounds. Subnormals have
/// the power of the least normal value, and so do whole numbers, which have one step. Where E4M3 clips nothing, 24
/// times the power is added to the value itself, by half as many instructions.
struct PairRounding {
  uint32_t exponents;    // the bits of a magnitude that say its step
  uint32_t least, most;  // power of two of the finest step; magnitude

  template <bool kClips>
  __device__ uint32_t round(uint32_t x) const {
    if constexpr (!kClips) {
      const uint32_t power = larger_pairs(x & both(kExponentBits), least);
      return multiply_add_pairs(power, both(kTwentyFourBits | kSignBit),
                                multiply_add_pairs(power, both(kTwentyFourBits), x));
    }
    const uint32_t magnitude = smaller_pairs(x & both(0x7FFF), most);
    const uint32_t power = larger_pairs(magnitude & exponents, least);
    const uint32_t sum = multiply_add_pairs(power, both(kSixteenBits), magnitude);
    return multiply_add_pairs(power, both(kSixteenBits | kSignBit), sum) | (x & both(kSignBit));
  }
  /// What rounding adds to them.
  template <bool kClips>
  __device__ uint32_t change(uint32_t x) const {
    return multiply_add_pairs(x, both(kOneBits | kSignBit), round<kClips>(x));
  }

  /// So many rungs above.
  __device__ PairRounding above(int rungs) const {
    const uint32_t powers = static_cast<uint32_t>(rungs) * both(kFourTimes);
    return {exponents, least + powers, most + powers};
  }
};

/// At scale 1.
__device__ inline PairRounding pair_rounding(SampleFormat format) {
  if (format == SampleFormat::Int8) return {0, both(0x4100), both(0x42FE)};  // 8, 127
  return {both(kExponentBits), both(0x3C80), both(0x43E0)};                  // 2^-6, 448
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
