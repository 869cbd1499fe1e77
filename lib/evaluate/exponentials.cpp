#include "evaluate/exponentials.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace kvcal {
namespace {

// Vectors of two doubles: what every processor of 64 bits has. Four of them are a block.
constexpr size_t kLanes = 2, kParts = 4, kBlock = kLanes * kParts;
using F64x2 = double __attribute__((vector_size(16)));
using I64x2 = int64_t __attribute__((vector_size(16)));
using F32x2 = float __attribute__((vector_size(8)));

F64x2 both(double x) { return F64x2{x, x}; }

F64x2 wide(const float* p) {
  F32x2 x;
  std::memcpy(&x, p, sizeof x);
  return __builtin_convertvector(x, F64x2);
}

F64x2 load(const double* p) {
  F64x2 x;
  std::memcpy(&x, p, sizeof x);
  return x;
}

/// e^x for x of at most 0.
F64x2 exp_below(F64x2 x) {
  constexpr double kRound = 0x1.8p52;  // adding it leaves the nearest integer in the low bits
  const F64x2 bounded = x < kNegligibleExponent ? both(kNegligibleExponent) : x;
  const F64x2 shifted = bounded * 0x1.71547652b82fep+0 + kRound;  // log2(e)
  const F64x2 n = shifted - kRound;
  // ln 2 in two parts; the first has 21 trailing zero bits, so that its product with n is exact.
  const F64x2 r = (bounded - n * 0x1.62e42fee00000p-1) - n * 0x1.a39ef35793c76p-33;
  // Taylor: |r| <= ln2/2 leaves a remainder of 2e-16.
  constexpr double kTaylor[] = {1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720,
                                1.0 / 120,      1.0 / 24,      1.0 / 6,      0.5,         1.0,        1.0};
  F64x2 p = both(1.0 / 479001600);
#pragma GCC unroll 12
  for (const double c : kTaylor) p = p * r + c;
  const I64x2 exponent = std::bit_cast<I64x2>(shifted) << 52;  // n is between -73 and 0
  const F64x2 e = std::bit_cast<F64x2>(std::bit_cast<I64x2>(p) + exponent);
  return x > kNegligibleExponent ? e : both(0);
}

/// Adds up what `term(i)` gives for the elements i and i + 1: by lanes, then these in a tree. What is left of the
/// last block comes from `tail`, with zeros behind it.
template <class Term, class Tail>
double sum_of(size_t n, const Term& term, const Tail& tail) {
  F64x2 sums[kParts] = {both(0), both(0), both(0), both(0)};
  const size_t whole = n / kBlock * kBlock;
  for (size_t i = 0; i < whole; i += kBlock)
    for (size_t part = 0; part < kParts; ++part) sums[part] += term(i + part * kLanes);
  for (size_t i = whole; i < n; ++i) sums[(i - whole) / kLanes][(i - whole) % kLanes] += tail(i);
  const F64x2 all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  return all[0] + all[1];
}

}  // namespace

double exp_sum(std::span<const float> logits, float largest) {
  const auto top = static_cast<double>(largest);
  return sum_of(
      logits.size(), [&](size_t i) { return exp_below(wide(&logits[i]) - top); },
      [&](size_t i) { return exp_below(both(static_cast<double>(logits[i]) - top))[0]; });
}

double exp_sum(std::span<const float> logits, float largest, std::span<double> e) {
  const auto top = static_cast<double>(largest);
  return sum_of(
      logits.size(),
      [&](size_t i) {
        const F64x2 x = exp_below(wide(&logits[i]) - top);
        std::memcpy(&e[i], &x, sizeof x);
        return x;
      },
      [&](size_t i) { return e[i] = exp_below(both(static_cast<double>(logits[i]) - top))[0]; });
}

double weighted_difference(std::span<const double> weights, std::span<const float> a, std::span<const float> b,
                           double shift) {
  return sum_of(
      weights.size(), [&](size_t i) { return load(&weights[i]) * (wide(&a[i]) - wide(&b[i]) - shift); },
      [&](size_t i) { return weights[i] * (static_cast<double>(a[i]) - static_cast<double>(b[i]) - shift); });
}

}  // namespace kvcal
