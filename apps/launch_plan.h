// How a calibration is cut into the parts of a cluster's job: how many, and the memory and time of each.
#pragma once

#include <cstdint>
#include <string>

#include "calibrate/options.h"

namespace kvcal {

struct LaunchPlan {
  std::string plan_sha256;                               // of the sequences
  int64_t n_prompts = 0, n_sequences = 0, n_tokens = 0;  // of all parts
  int64_t parts = 1, threads = 1;
  uint64_t memory = 0;                           // bytes of a part
  uint64_t weights = 0;                          // bytes that each part reads
  double read_seconds = 0, product_seconds = 0;  // of a part, estimated

  /// Three times the estimate and ten minutes, in whole quarters of an hour.
  int64_t limit_seconds() const;
};

/// parts 0: the first power of two at which a part reads as long as it multiplies, since more would mostly read.
/// memory 0: as much as is useful. Reads the headers of weights and the prompts, runs nothing.
LaunchPlan plan_launch(const CalibrationInputs& inputs, const CalibrationOptions& options, int64_t parts,
                       NoticeListener& listener);

}  // namespace kvcal
