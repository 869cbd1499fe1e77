// An evaluation as it is asked for on a command line: by 'kvcal evaluate', and by 'kvcal calibrate --evaluate'.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "evaluate/evaluate.h"
#include "prompt_flags.h"
#include "verbs.h"

namespace kvcal {

struct EvaluateFlags {
  std::string model, named;  // the folder; as typed
  std::string memory, stats, device = "auto", precision = "bf16", progress = "auto";
  std::vector<std::string> scales, formats, choose, state_dtypes;
  PromptFlags prompts;
  EvaluationOptions run;
  std::filesystem::path out = "evaluation.json";
  std::optional<double> max_kl, until_decided, min_agreement, min_correct;
  int64_t max_new_tokens = 256, max_bytes_per_token = 0, state_chunk = 1;
  bool generate = false, per_layer = false, query = false, undivided = false, floor = false, force = false,
       resume = false, json = false, quiet = false;
};

/// Prints the result, writes the file, judges the limits.
Exit run_evaluation(const EvaluateFlags& flags);

}  // namespace kvcal
