#include <cmath>

#include "solve/policies.h"

namespace kvcal {

double pow2_scale(const PolicyInput& in) {
  int exponent = 0;
  const double fraction = std::frexp(absmax_scale(in), &exponent);  // in [0.5, 1)
  return std::ldexp(1.0, fraction == 0.5 ? exponent - 1 : exponent);
}

}  // namespace kvcal
