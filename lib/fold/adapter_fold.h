// LoRA adapters of a folded checkpoint: the product B A that is added to a weight takes the weight's factors.
#pragma once

#include <filesystem>
#include <vector>

#include "fold/fold_plan.h"

namespace kvcal {

/// Its only file of weights. Throws Error: it is no adapter, or a pickled one.
std::filesystem::path adapter_weights(const std::filesystem::path& folder);

/// What adapters of the original are multiplied by to fit the folded checkpoint: lora_B's rows, lora_A's columns, and
/// tensors that the adapter replaces as a whole. `folder` is one as PEFT writes it, with adapter_config.json; classes
/// with a vision tower may name modules otherwise than the checkpoint. Throws Error: it is none, folded already, or of
/// a kind other than LoRA, its tensors are named for another model or do not take their powers exactly, or it is a
/// decomposed one (DoRA) that the columns' factors would change.
std::vector<TensorFold> fold_adapter(const std::filesystem::path& folder, const OpenedModel& model,
                                     const FoldPlan& plan);

}  // namespace kvcal
