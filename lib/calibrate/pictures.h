// Pictures of prompts, read by the model's own tower.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "calibrate/opened_model.h"
#include "model/vision_tower.h"
#include "prefill/sequence_plan.h"
#include "prompts/prompt_set.h"

namespace kvcal {

/// For tokenize_prompts(): null where no prompt has pictures. Throws Error where the model's tower is not run, or the
/// folder has no image processor that is known.
std::shared_ptr<const PictureTokens> picture_tokens(const PromptSet& set, const std::filesystem::path& folder,
                                                    const Json& config, const ModelSpec& spec);

/// Makes room for what a model's tower makes of prompts' pictures. Throws Error where the checkpoint lacks the tower.
class PictureRoom {
 public:
  explicit PictureRoom(const OpenedModel& model);

  /// With the hash of all that the rows of this prompt depend on.
  void add_to(PromptTokens& tokens, const TokenizedPrompt& prompt) const;

 private:
  const ModelSpec& spec_;
  TowerSpec tower_;
  std::string of_model_;  // what the rows of all prompts depend on
};

/// Runs the tower on the pictures of all prompts, if there are any. Throws Error where it takes more than `memory`
/// bytes (0: what is available).
void see_pictures(const OpenedModel& model, Ops& op, std::span<const PromptTokens> prompts, uint64_t memory);

}  // namespace kvcal
