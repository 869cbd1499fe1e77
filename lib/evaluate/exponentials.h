// Sums of exponentials of many logits. Eight lanes, each in order of the logits and added in a fixed tree: the bits of
// a sum depend on the logits alone, neither on the processor nor on what else is computed.
#pragma once

#include <span>

namespace kvcal {

/// Of less than e^-50 times the largest nothing reaches the last bit of a sum: it counts as 0.
constexpr double kNegligibleExponent = -50;

/// Sum of e^(x - largest), largest being that of the logits: error below 1e-15 of it.
double exp_sum(std::span<const float> logits, float largest);

/// The same, and each of them: e [logits.size()].
double exp_sum(std::span<const float> logits, float largest, std::span<double> e);

/// Sum of weight (a - b - shift), in double.
double weighted_difference(std::span<const double> weights, std::span<const float> a, std::span<const float> b,
                           double shift);

}  // namespace kvcal
