#include "solve/policies.h"

namespace kvcal {

double absmax_scale(const PolicyInput& in) { return in.range * in.headroom / in.format.max; }

}  // namespace kvcal
