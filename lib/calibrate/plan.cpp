#include "calibrate/plan.h"

#include <algorithm>
#include <utility>

#include "solve/sampled_damage.h"
#include "stats/observer.h"

namespace kvcal {
namespace {

void check_needed_weights(OpenedModel& model, bool logits) {
  const ModelSpec& spec = model.spec();
  check_weights(*model.model, model.weights,
                logits ? static_cast<int>(spec.layers.size()) : spec.last_counted_layer() + 1, logits);
}

/// Measured tokens, and rows of sampled attention, of the device that has most.
struct LargestShare {
  int64_t n_tokens = 0, sampled_rows = 0;
};

/// With until_stable, which draws prompts on the way, any device may get all of them.
LargestShare largest_share(const CalibrationPlan& plan, const CalibrationOptions& options) {
  LargestShare largest;
  for (const auto& share : deal(plan.sequences.measured, options.until_stable < 0 ? plan.devices.size() : 1)) {
    largest.n_tokens = std::max(largest.n_tokens, tokens_of(share));
    largest.sampled_rows = std::max(largest.sampled_rows, n_sampled(segments_of(share)));
  }
  return largest;
}

MemoryOptions memory_options(const ModelSpec& spec, const CalibrationPlan& plan, const CalibrationOptions& options) {
  const auto n_prompts = static_cast<int64_t>(plan.sequences.prompts.size());
  MemoryOptions memory;
  memory.budget = options.memory;
  memory.chunk_tokens = options.chunk_tokens;
  memory.precision = options.precision;
  memory.keeps_states = !state_layouts(spec).empty();
  memory.device = plan.devices.memory();
  const LargestShare share = largest_share(plan, options);
  memory.n_devices = static_cast<int64_t>(plan.devices.size());
  memory.device_tokens = share.n_tokens;
  memory.device_statistics_bytes = static_cast<uint64_t>(Observer::device_bytes_needed(
      spec,
      {share.sampled_rows, n_prompts, options.sequences.passes, sample_options(options.solve), options.precision}));
  memory.sampled_rows = share.sampled_rows;
  memory.statistics_bytes = static_cast<uint64_t>(
      Observer::bytes_needed(spec, plan.sequences.n_tokens(), n_prompts, options.sequences.passes));
  return memory;
}

}  // namespace

CalibrationPlan plan_calibration(OpenedModel& model, std::vector<PromptTokens> prompts, RunSources sources,
                                 const CalibrationOptions& options, const OpenDevices& open_devices) {
  check_needed_weights(model, options.sequences.sanity);
  CalibrationPlan plan;
  plan.sources = std::move(sources);
  plan.devices = open_devices();
  if (plan.devices.size() > 1 && !options.resume.empty())
    fail("--resume cannot be used with several GPUs: it keeps the rows of one; name one, or run without it");
  if (plan.devices.size() > 1 && options.kept)
    fail("--refits cannot be used with several GPUs: it keeps the rows of one; name one");
  plan.sequences = plan_sequences(std::move(prompts), options.sequences);
  ModelSpec spec = model.spec();
  const MemoryOptions memory = memory_options(spec, plan, options);
  if (!plan.sources.activation_quant.empty())  // rounded copies of the inputs; an input is some other op's output
    for (LayerSpec& layer : spec.layers) layer.activations *= 2;
  plan.memory = plan_memory(spec, model.weights, plan.sequences, memory);
  return plan;
}

}  // namespace kvcal
