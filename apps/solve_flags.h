// The options that `calibrate` and `solve` share: how scales are chosen from statistics.
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

  void add_to(CLI::App& verb);

  /// Throws Error naming the option that makes no sense.
  SolveOptions resolve() const;
};

}  // namespace kvcal
