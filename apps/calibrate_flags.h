// The options of `kvcal calibrate`.
#pragma once

#include <optional>
#include <string>

#include "artifact_output.h"
#include "calibrate/options.h"
#include "prompt_flags.h"
#include "solve_flags.h"

namespace CLI {
class App;
}

namespace kvcal {

struct CalibrateFlags {
  std::string named;  // the model, as typed
  std::string model, statistics, memory, shard, device = "auto", precision = "bf16", progress = "auto";
  std::string scale_option;  // the first one given, "" for none
  PromptFlags prompts;
  CalibrationOptions run;
  SolveFlags solve;
  ArtifactOutput output;
  std::optional<double> until_stable;  // percent
  std::string evaluation;              // file to write, "" for none
  std::string refits;                  // file with further models, "" for none
  bool dry_run = false, no_sanity = false, resume = false, if_changed = false, check = false, mpi = false;

  void add_to(CLI::App& verb);

  /// Throws Error for options that are wrong or contradict each other.
  CalibrationOptions resolve() const;

  std::string resume_folder() const;
};

}  // namespace kvcal
