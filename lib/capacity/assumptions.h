// The assumptions of a plan, each with a name that messages and scripts can refer to.
#pragma once

#include <string>
#include <vector>

#include "capacity/fit.h"

namespace kvcal {

struct Assumption {
  std::string name;    // "utilization"
  std::string text;    // what is assumed
  std::string option;  // that changes it, "" when none does
};

/// Those that bear on this model and machine.
std::vector<Assumption> assumptions_of(const ModelSpec& spec, const Capacity& capacity);

}  // namespace kvcal
