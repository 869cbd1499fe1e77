// One sweep over the layers for the reference and all variants, side by side: the weights are read once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "evaluate/evaluate.h"

namespace kvcal {

/// What sweeps need.
struct Ground {
  OpenedModel& model;
  const SequencePlan& sequences;
  Ops& op;
  const EvaluationOptions& options;
  CalibrationListener& listener;
  EvaluationResume* resume = nullptr;
};

struct Swept {
  std::vector<EvaluatedVariant> variants;
  MemoryPlan memory;
};

/// Of the reference and the variants, each with a residual stream of its own. Throws Error when it does not fit.
MemoryPlan memory_of(const Ground& on, const std::vector<Variant>& variants);

/// The reference twice on a few tokens (Error where its predictions differ), then the reference and all variants on all
/// of them. `name`: of its part of Ground::resume, where it goes on and leaves every layer's end.
Swept sweep(const Ground& on, const std::vector<Variant>& variants, const std::string& name = "");

/// With EvaluationOptions::resume, where the parts of a run are kept; else null.
std::unique_ptr<EvaluationResume> open_resume(const Ground& on, const std::string& prompts_sha256);

}  // namespace kvcal
