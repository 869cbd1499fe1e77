// Where divergences stand on a logarithmic axis, and where texts part.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace kvcal {

/// From 10^low at the bottom to 10^high at the top.
struct KlAxis {
  int low = -1, high = 0;
};

/// Holds the largest, and as much as it can of what is above zero: at most eight decades.
KlAxis axis_of(std::span<const double> kls);

/// 0 to 1; of what is zero, or below the axis, 0.
double height_of(double kl, const KlAxis& axis);

/// Bytes that both texts begin with, none of them a part of a UTF-8 character.
size_t common_beginning(std::string_view a, std::string_view b);

}  // namespace kvcal
