// Comparisons that print their evidence: the worst element, both values and the bound.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <string>

namespace kvcal {

struct Difference {
  double relative_rms = 0;  // sqrt(sum (a-b)^2 / sum b^2)
  double cosine = 1;
  size_t worst = 0;  // index of the largest absolute difference
  bool finite = true;
};

inline Difference compare(std::span<const float> actual, std::span<const float> expected) {
  Difference d;
  double error = 0, energy = 0, dot = 0, own = 0, worst = -1;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double a = actual[i], b = expected[i];
    d.finite = d.finite && std::isfinite(a) && std::isfinite(b);
    error += (a - b) * (a - b);
    energy += b * b;
    own += a * a;
    dot += a * b;
    if (std::fabs(a - b) > worst) {
      worst = std::fabs(a - b);
      d.worst = i;
    }
  }
  d.relative_rms = energy > 0 ? std::sqrt(error / energy) : std::sqrt(error);
  d.cosine = own > 0 && energy > 0 ? dot / std::sqrt(own * energy) : 1;
  return d;
}

inline ::testing::AssertionResult close(std::span<const float> actual, std::span<const float> expected, double bound) {
  if (actual.size() != expected.size())
    return ::testing::AssertionFailure() << actual.size() << " values, expected " << expected.size();
  const Difference d = compare(actual, expected);
  if (d.finite && d.relative_rms <= bound) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "relative RMS " << d.relative_rms << ", bound " << bound << "; worst at "
                                       << d.worst << ": " << actual[d.worst] << ", expected " << expected[d.worst];
}

}  // namespace kvcal
