// LoRA adapters of a folded checkpoint: the product B A that is added to a weight takes the weight's factors.
#pragma once

#include <filesystem>
#include <vector>

#include "fold/fold_plan.h"

namespace kvcal {

/// What adapters of the original are multiplied by to fit the folded checkpoint: lora_B's rows, lora_A's columns, and
/// tensors that the adapter replaces as a whole. `folder` is one as PEFT writes it, with adapter_config.json. Throws
/// Error: it is none, its tensors are named for another model, or a decomposed one (DoRA) that the columns' factors
/// would change.
std::vector<TensorFold> fold_adapter(const std::filesystem::path& folder, const OpenedModel& model,
                                     const FoldPlan& plan);

}  // namespace kvcal
