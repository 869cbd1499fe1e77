#include "calibrate/plan.h"

#include <utility>

#include "solve/sampled_damage.h"
#include "stats/observer.h"

namespace kvcal {
namespace {

void check_needed_weights(OpenedModel& model, bool logits) {
  const ModelSpec& spec = model.spec();
  check_weights(*model.model, model.weights,
                logits ? static_cast<int>(spec.layers.size()) : spec.last_cache_layer() + 1, logits);
}

MemoryOptions memory_options(const ModelSpec& spec, const CalibrationPlan& plan, const CalibrationOptions& options) {
  const auto n_prompts = static_cast<int64_t>(plan.sequences.prompts.size());
  MemoryOptions memory;
  memory.budget = options.memory;
  memory.chunk_tokens = options.chunk_tokens;
  memory.precision = options.precision;
  memory.device = plan.op->device_memory();
  memory.device_statistics_bytes = static_cast<uint64_t>(Observer::device_bytes_needed(
      spec, {n_sampled(segments_of(plan.sequences.measured)), n_prompts, options.sequences.passes,
             sample_options(options.solve), options.precision}));
  memory.sampled_rows = n_sampled(segments_of(plan.sequences.measured));
  memory.statistics_bytes = static_cast<uint64_t>(
      Observer::bytes_needed(spec, plan.sequences.n_tokens(), n_prompts, options.sequences.passes));
  return memory;
}

}  // namespace

CalibrationPlan plan_calibration(OpenedModel& model, const std::vector<PromptTokens>& prompts, RunSources sources,
                                 const CalibrationOptions& options, const OpenDevice& open_device) {
  check_needed_weights(model, options.sequences.sanity);
  CalibrationPlan plan;
  plan.sources = std::move(sources);
  plan.op = open_device();
  plan.sequences = plan_sequences(prompts, options.sequences);
  ModelSpec spec = model.spec();
  const MemoryOptions memory = memory_options(spec, plan, options);
  if (!plan.sources.activation_quant.empty())  // rounded copies of the inputs; an input is some other op's output
    for (LayerSpec& layer : spec.layers) layer.activations *= 2;
  plan.memory = plan_memory(spec, model.weights, plan.sequences, memory);
  return plan;
}

}  // namespace kvcal
