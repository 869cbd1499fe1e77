// The options that `calibrate`, `solve` and `report` share: how scales are chosen from statistics.
#pragma once

#include <string>

#include "solve/options.h"

namespace CLI {
class App;
}

namespace kvcal {

struct SolveFlags {
  SolveOptions options;
  std::string granularity = "tensor";

  void add_to(CLI::App& verb);         // both groups below
  void add_scales_to(CLI::App& verb);  // how scales are chosen
  void add_limits_to(CLI::App& verb);  // above which a layer is assessed as "keep16"

  /// Throws Error for one that the policy does not use.
  void refuse_idle_options(const CLI::App& verb) const;

  /// Throws Error naming the invalid option.
  SolveOptions resolve() const;
};

}  // namespace kvcal
