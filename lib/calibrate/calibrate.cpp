#include "calibrate/calibrate.h"

#include <algorithm>
#include <span>
#include <utility>

#include "artifact/make_artifact.h"
#include "base/input_files.h"
#include "calibrate/changes.h"
#include "calibrate/fed_prompts.h"
#include "calibrate/opened_model.h"
#include "calibrate/pictures.h"
#include "solve/solution.h"

namespace kvcal {
namespace {

std::string emulated_activations(OpenedModel& model, const CalibrationOptions& options) {
  if (!options.emulate_activations) return "";
  return while_doing("--emulate-activation-quant", [&] { return model.weights.text.emulate_activations(); });
}

// What this model and these prompts cannot show.
void report_limits(const OpenedModel& model, const FedPrompts& fed, CalibrationOptions& options,
                   CalibrationListener& listener) {
  if (options.sequences.sanity && !model.has_head()) {
    options.sequences.sanity = false;
    listener.hear(Notice::Warning,
                  "the checkpoint has no output head; skipping the check that the model predicts the prompts");
  }
  if (!options.mtp && has_mtp_layer(model.spec(), model.weights))
    listener.hear(Notice::Advice,
                  "the checkpoint has an MTP layer, whose cache is not measured: --mtp measures it, for servers that "
                  "draft tokens with it");
  if (!model.spec().placeholders.empty() && !has_encoder_rows(fed))
    listener.hear(Notice::Advice,
                  "the model accepts images, but no prompt has any: ranges on image tokens are not measured");
}

std::string listed(const std::vector<std::string>& changes) {
  std::string list;
  for (const std::string& change : changes) list += (list.empty() ? "" : ", ") + change;
  return list;
}

}  // namespace

CalibrationResult calibrate(const CalibrationInputs& inputs, CalibrationOptions options,
                            CalibrationListener& listener) {
  // The checkpoint: config understood, tensors located.
  OpenedModel model(inputs.model, options.solve.max_model_len, options.mtp);
  const std::string activation_quant = emulated_activations(model, options);

  // Prompts become token ids.
  options.prompts.keep_within(model.spec().max_positions);
  options.sequences.max_length = options.prompts.max_length;
  const FedPrompts fed = feed_prompts(model, options.prompts, inputs.prompts, listener);
  const RunSources sources = {fed.sha256, tokenizer_sha256(inputs.model), activation_quant};
  report_limits(model, fed, options, listener);
  std::vector<PromptTokens> prompts = tokens_of(fed, model);

  // What was found before stands as long as a run would find the same.
  if (options.earlier) {
    CalibrationResult compared;
    compared.activation_quant = activation_quant;
    compared.changes =
        listed(changes_since(*options.earlier, model, sources, plan_sequences(prompts, options.sequences), options));
    compared.earlier_stands = compared.changes.empty();
    if (compared.earlier_stands || options.extent == Extent::Comparison) return compared;
    listener.hear(Notice::Note, "calibrating again; changed: " + compared.changes);
  }

  // Sequences, memory and devices, before anything runs.
  CalibrationPlan plan = plan_calibration(model, std::move(prompts), sources, options, inputs.open_devices);
  listener.planned(plan, model.spec());
  if (options.extent == Extent::Plan) return {{std::move(plan.sequences)}, plan.memory, activation_quant};

  // Pictures become rows in place of their tokens.
  see_pictures(model, plan.devices.op(0), plan.sequences.prompts, options.memory);

  // Layer by layer: all sequences through the model, every key, value and query counted.
  CalibrationResult result = {measure(model, plan, options, listener), plan.memory, activation_quant};
  const auto n_prompts = result.sequences.prompts.size();  // with until_stable fewer than were fed
  result.statistics.run.calibration->prompts_sha256 = prompts_sha256(std::span(fed.prompts).first(n_prompts));
  model.report_tensors(options.sequences.sanity, listener);
  check_inputs_unchanged();
  listener.measured(result.statistics);

  if (options.extent == Extent::Statistics) return result;

  // Statistics become scales, each with its error and an assessment.
  const Solution solution = solve(result.statistics, options.solve);

  // Both become what the scale file says.
  result.artifact = make_artifact(result.statistics, solution);
  return result;
}

}  // namespace kvcal
