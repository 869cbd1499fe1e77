// The one command that follows on a calibration.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "artifact/artifact.h"
#include "base/lines.h"

namespace kvcal {

/// What the user named.
struct NextStepInputs {
  std::filesystem::path scales;      // the file, written; "-": there is none
  std::string model;                 // as typed; "" where no model was given
  std::filesystem::path folder;      // where it is
  std::vector<std::string> prompts;  // words of a command line that feed the same prompts
  bool evaluates = false;            // an evaluation follows by itself
};

/// "next: WHAT:" and the command, which would run, or why no server loads these scales and what does instead, as
/// export's refusal says it. Nothing where none can be named, or where the scales want more prompts first.
Lines next_step(const Artifact& artifact, const NextStepInputs& inputs);

/// "next: WHAT:" and the command.
Lines step(const std::string& what, const std::string& command);

/// Whether the checkpoint has scales of its own, which a server would take instead of 1.0.
bool has_scales(const std::filesystem::path& folder);

/// The export for the first server that takes these scales; of what none takes, why the first does not.
Lines serve_with_scales(const Artifact& artifact, const NextStepInputs& inputs);

}  // namespace kvcal
