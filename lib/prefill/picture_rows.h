// What a model's own tower makes of the pictures of prompts.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "model/encoder_rows.h"
#include "model/vision_tower.h"
#include "prefill/sequence_plan.h"
#include "vision/patch_processor.h"

namespace kvcal {

/// Room for the rows of a prompt's pictures, which run_tower() fills, and the positions of its tokens: `ids` have as
/// many placeholders for each picture as it has squares. Throws Error where they do not.
std::shared_ptr<const EncoderRows> plan_pictures(std::span<const int32_t> ids, std::vector<Picture> pictures,
                                                 const TowerSpec& tower, const ModelSpec& spec);

/// What the tower's prefix is in this checkpoint. Throws Error where its tensors are not there.
std::string tower_prefix(const Checkpoint& checkpoint, const TowerSpec& tower);

/// Fills the rows of all pictures, each alone, part by part of the tower: weights are read once. Before reserve().
void run_tower(const VisionTower& tower, const PatchProcessor& processor, Ops& op, WeightBinder weights,
               std::span<const PromptTokens> prompts);

/// Bytes that run_tower() takes at once, beside the rows.
uint64_t tower_bytes(const TowerSpec& tower, std::span<const PromptTokens> prompts);

}  // namespace kvcal
