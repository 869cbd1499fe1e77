#include "calibrate/pictures.h"

#include <algorithm>

#include "base/available_memory.h"
#include "base/sha256.h"
#include "base/size_text.h"
#include "checkpoint/fingerprint.h"
#include "model/towers/towers.h"
#include "prefill/picture_rows.h"

namespace kvcal {

std::shared_ptr<const PictureTokens> picture_tokens(const PromptSet& set, const std::filesystem::path& folder,
                                                    const Json& config, const ModelSpec& spec) {
  const auto has_pictures = [](const PromptRecord& r) { return !r.pictures.empty(); };
  if (std::ranges::none_of(set.records, has_pictures)) return nullptr;
  return while_doing("prompts have pictures", [&] {
    const TowerSpec tower = read_tower(config, spec)->spec();
    return std::make_shared<const PictureTokens>(
        PictureTokens{tower.token, tower.text, PatchProcessor::load(folder, tower.patches)});
  });
}

PictureRoom::PictureRoom(const OpenedModel& model)
    : spec_(model.spec()), tower_(read_tower(model.checkpoint.config(), spec_)->spec()) {
  const Checkpoint& checkpoint = model.checkpoint;
  of_model_ = PatchProcessor::load(checkpoint.folder(), tower_.patches).description();
  for (const std::string& module : tower_.modules)
    of_model_ +=
        "\n" + weights_fingerprint(checkpoint, checkpoint.names_below(tower_prefix(checkpoint, tower_) + module));
}

void PictureRoom::add_to(PromptTokens& tokens, const TokenizedPrompt& prompt) const {
  tokens.encoder = plan_pictures(prompt.input_ids, prompt.pictures, tower_, spec_);
  tokens.encoder_sha256 = sha256_hex(prompt.canonical + "\n" + of_model_);
}

void see_pictures(const OpenedModel& model, Ops& op, std::span<const PromptTokens> prompts, uint64_t memory) {
  const auto has_pictures = [](const PromptTokens& p) { return p.encoder && !p.encoder->pictures.empty(); };
  if (std::ranges::none_of(prompts, has_pictures)) return;
  const Checkpoint& checkpoint = model.checkpoint;
  const std::unique_ptr<VisionTower> tower = read_tower(checkpoint.config(), model.spec());
  const uint64_t budget = memory ? memory : available_memory(), needed = tower_bytes(tower->spec(), prompts);
  if (needed > budget)
    fail("the pictures need " + bytes_text(needed) + " of memory in the vision tower, the budget is " +
         bytes_text(budget) + "; fewer or smaller pictures need less");
  op.enter_thread();
  const WeightBinder weights = model.weights.whole.at(tower_prefix(checkpoint, tower->spec()));
  while_doing("running the vision tower", [&] {
    run_tower(*tower, PatchProcessor::load(checkpoint.folder(), tower->spec().patches), op, weights, prompts);
  });
}

}  // namespace kvcal
