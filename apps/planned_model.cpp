#include "planned_model.h"

#include "base/error.h"
#include "model/architecture.h"
#include "model/config_guess.h"

namespace kvcal {
namespace {

std::string guess_text(const GuessedModel& guess) {
  return "this program does not read the class " + quoted(guess.spec.architecture) +
         (guess.refused.empty() ? "" : " (" + guess.refused + ")") + "; guessed from " + guess.told_by +
         " of its config: " + caches_text(guess.spec) + (guess.open.empty() ? "" : "; " + guess.open);
}

}  // namespace

PlannedModel planned_model(const Json& config, bool mtp) {
  if (const std::optional<GuessedModel> guess = guess_unknown_class(config)) {
    if (mtp)
      fail("--mtp: this program does not read the class " + quoted(guess->spec.architecture) +
           "; without it the other caches are guessed");
    return {guess->spec, guess_text(*guess)};
  }
  const std::unique_ptr<Model> model = parse_model(config);
  if (mtp && model->spec().mtp_names.empty())
    fail("--mtp: this program does not read the MTP layers of " + quoted(model->spec().architecture) +
         ", or config.json does not have exactly one; without --mtp the model is planned as before");
  if (mtp) model->add_mtp_layer();
  return {model->spec(), ""};
}

}  // namespace kvcal
