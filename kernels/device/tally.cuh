// Small pieces of counting: values as bf16 codes, maxima that are rarely new, and many small sums in one word.
#pragma once

#include "kernels/device/real.cuh"
#include "kernels/device/reduce.cuh"

namespace kvcal::cuda {

using Word = unsigned long long;  // what 64-bit atomics take
static_assert(sizeof(Word) == sizeof(uint64_t));

constexpr unsigned kMagnitude = 0x7FFF, kInfinity = 0x7F80, kOctaveCodes = 128;

__device__ inline unsigned bits_of_value(bf16 x) { return x.bits; }
/// A NaN keeps its payload, as to_bf16() does it: codes are counted.
__device__ inline unsigned bits_of_value(float x) {
  return x == x ? narrow_pair(x, 0.0f) : (__float_as_uint(x) >> 16) | 0x40u;
}

// What a block counts in shared memory, zeros and 2^-24 .. 2^16: slots 0 .. 39 are octaves 103 .. 142, the last slot is
// octave 0.
constexpr unsigned kWindow = 40, kFirstOctave = 103, kSlots = kWindow + 1, kBins = kSlots * kOctaveCodes;
__device__ inline bool has_bin(unsigned code) {
  return code < kOctaveCodes || code - kFirstOctave * kOctaveCodes < kWindow * kOctaveCodes;
}
__device__ inline unsigned bin_of(unsigned code) {
  return code < kOctaveCodes ? code + kWindow * kOctaveCodes : code - kFirstOctave * kOctaveCodes;
}
__device__ inline unsigned code_of(unsigned bin) {
  return bin < kWindow * kOctaveCodes ? bin + kFirstOctave * kOctaveCodes : bin - kWindow * kOctaveCodes;
}

/// The bit that a significand has and its code has not.
__device__ inline unsigned hidden_bit(bool normal) { return normal ? kOctaveCodes : 0; }

/// A maximum that is rarely new: the plain read may be old, hence too small, which costs no more than an atomic.
__device__ inline void raise(Word* cell, Word value) {
  if (value > *static_cast<volatile const Word*>(cell)) atomicMax(cell, value);
}

/// Raises cells[index] by the value of each lane; all lanes must be here. One atomic for all that share the first
/// lane's cell, as neighbouring rows mostly do.
__device__ inline void raise_by_warp(Word* cells, int64_t index, unsigned value) {
  const int64_t first = __shfl_sync(kAllLanes, static_cast<long long>(index), 0);
  const unsigned together = __reduce_max_sync(kAllLanes, index == first ? value : 0);
  if (threadIdx.x % kWarp == 0) raise(&cells[first], together);
  if (index != first) raise(&cells[index], value);
}

__device__ inline Word warp_max(Word x) {
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    const Word other = __shfl_xor_sync(kAllLanes, x, lanes);
    x = other > x ? other : x;
  }
  return x;
}

/// Sums over at most kMost significands m of one octave, f = m & 127 their lower part: count, Σf, Σf², Σm of the
/// negative ones, each in its bits of one word.
struct PackedSums {
  static constexpr int kMost = 256;
  Word word;

  __device__ static Word of(unsigned m, bool negative) {
    const unsigned f = m % kOctaveCodes, high = negative ? m << (kNegative - 32) : 0;
    return Word{f * f} * (1u << kSquare) + (Word{high} << 32 | (f * (1u << kSum) + 1));  // no field meets another
  }
  __device__ Word count() const { return word & ((Word{1} << kSum) - 1); }
  __device__ Word sum() const { return word >> kSum & ((Word{1} << (kSquare - kSum)) - 1); }
  __device__ Word square() const { return word >> kSquare & ((Word{1} << (kNegative - kSquare)) - 1); }
  __device__ Word negative() const { return word >> kNegative; }

 private:
  static constexpr int kSum = 9, kSquare = 24, kNegative = 46;  // first bits
  static_assert(kMost < 1 << kSum && kMost * 127 < 1 << (kSquare - kSum));
  static_assert(kMost * 127 * 127 < 1 << (kNegative - kSquare) && kMost * 255 < 1 << (64 - kNegative));
};

}  // namespace kvcal::cuda
