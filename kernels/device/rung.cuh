// Rounding to FP8 or INT8 at the rungs of a ladder of scales (ops/attention_sample.h).
#pragma once

#include "kernels/device/pairs.cuh"
#include "kernels/device/small_floats.cuh"
#include "ops/attention_sample.h"

namespace kvcal::cuda {

/// 2^rung.
__device__ inline float scale_of(int rung) { return __uint_as_float(static_cast<uint32_t>(127 + rung) << 23); }

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

// Bits of bf16; the last are what a factor of two adds to those of a number.
constexpr uint32_t kOneBits = 0x3F80, kSixteenBits = 0x4180, kTwentyFourBits = 0x41C0, kSignBit = 0x8000,
                   kExponentBits = 0x7F80, kTwice = 1 << 7;

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
    const uint32_t powers = static_cast<uint32_t>(rungs) * both(kTwice);
    return {exponents, least + powers, most + powers};
  }
};

/// At scale 1.
__device__ inline PairRounding pair_rounding(SampleFormat format) {
  if (format == SampleFormat::Int8) return {0, both(0x4100), both(0x42FE)};  // 8, 127
  return {both(kExponentBits), both(0x3C80), both(0x43E0)};                  // 2^-6, 448
}

// RungLadder's functions, for kernels.

__device__ inline int n_slots(const RungLadder& ladder) { return ladder.below + ladder.above + 2; }

/// The highest rung before 1.0.
__device__ inline int highest_rung(const RungLadder& ladder, int lowest) {
  const int top = max(lowest + ladder.beyond, ladder.most);
  return min(lowest + ladder.above, top);
}

/// What is known of a row that decides which rungs it tries: the lowest that clips nothing, and up to which others
/// round as that does.
struct RungsOfRow {
  int lowest, alike;

  /// The one that stands for all alike; none where alike < lowest.
  __device__ int common() const { return min(max(kRungOfOne, lowest), alike); }

  /// The rung that is tried for a slot.
  __device__ int tried(const RungLadder& ladder, int slot) const {
    const bool last = slot == n_slots(ladder) - 1;
    const int rung = last ? kRungOfOne : min(lowest - ladder.below + slot, highest_rung(ladder, lowest));
    return rung >= lowest && rung <= alike ? common() : rung;
  }

  /// Whether it is tried for some slot.
  __device__ bool tries(const RungLadder& ladder, int rung) const {
    if (rung >= lowest && rung <= alike) return rung == common();
    return rung == kRungOfOne || (rung >= lowest - ladder.below && rung <= highest_rung(ladder, lowest));
  }
};

}  // namespace kvcal::cuda
