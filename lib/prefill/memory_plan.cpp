#include "prefill/memory_plan.h"

#include <algorithm>

#include "base/available_memory.h"
#include "base/error.h"
#include "prefill/device_plan.h"
#include "prefill/footprint.h"

namespace kvcal {
namespace {

constexpr uint64_t kProgramBytes = uint64_t{160} << 20;  // measured: libraries, a 150k-entry tokenizer, panel buffers

// More rows make no dense product faster, and cost memory. An expert should get as many as a panel of the product has:
// every batch reads all experts anew. Mixtures of very many would take too much memory for that.
constexpr int64_t kUsefulRows = 2048, kExpertRows = 256, kMostUsefulRows = 8192;

// Largest layer's stored bytes and the layer after it, which is being read ahead.
void add_weights(MemoryPlan& plan, const ModelSpec& spec, const ModelWeights& weights, bool logits, Precision p) {
  const int last = logits ? static_cast<int>(spec.layers.size()) - 1 : spec.last_counted_layer();
  const bool decodes = weights.text.may_decode();
  uint64_t stored_before = 0;
  for (int i = 0; i <= last; ++i) {
    const LayerSpec& layer = spec.layers[static_cast<size_t>(i)];
    const uint64_t stored = weights.of_layer(spec, i).bytes();
    const uint64_t parameters = static_cast<uint64_t>(layer.parameters + layer.copies);
    const uint64_t decoded = decodes ? parameters * size_of(DType::BF16) : 0;  // until the layer has its own form
    plan.weights = std::max(plan.weights, parameters * element_bytes(p) + decoded);
    plan.mapped = std::max(plan.mapped, stored + stored_before);
    stored_before = stored;
  }
  plan.weights += static_cast<uint64_t>(spec.stream_parameters()) * element_bytes(p);  // while layer 0 is read
  if (!logits) return;
  const uint64_t head = static_cast<uint64_t>(spec.vocab * spec.hidden + spec.stream_parameters());
  plan.weights = std::max(plan.weights, head * element_bytes(p));
  plan.mapped = std::max(plan.mapped, head * element_bytes(p));
}

uint64_t state_bytes(const ModelSpec& spec, const std::vector<Batch>& batches, Precision p) {
  const uint64_t recurrent = largest_recurrent_state(spec), kv_row = largest_kv_row(spec, p);
  uint64_t worst = 0;
  for (const Batch& b : batches) {
    uint64_t rows = 0;
    for (const SequenceSpan& s : b.sequences) rows += s.whole ? 0 : static_cast<uint64_t>(s.sequence_tokens);
    worst = std::max(worst, layer_states(spec, rows * kv_row, b.sequences.size() * recurrent));
  }
  return worst;
}

/// What encoders made of the prompts: read row by row from the mapped files, the streams behind the embeddings too.
uint64_t encoder_bytes(const std::vector<PromptTokens>& prompts) {
  uint64_t bytes = 0;
  for (const PromptTokens& p : prompts) {
    if (!p.encoder) continue;
    bytes += p.encoder->embeddings.bytes();
    for (const Tensor& stream : p.encoder->deepstack) bytes += stream.bytes();
  }
  return bytes;
}

MemoryPlan with_chunk(const ModelSpec& spec, const SequencePlan& sequences, const MemoryPlan& base,
                      int64_t chunk_tokens, Precision p) {
  MemoryPlan plan = base;
  plan.chunk_tokens = chunk_tokens;
  int64_t rows = 0;
  for (const auto* list : {&sequences.measured, &sequences.warmup, &sequences.sanity}) {
    rows = std::max(rows, std::min(tokens_of(*list), chunk_tokens));
    plan.states = std::max(
        plan.states,
        state_bytes(spec, make_batches(*list, sequences.prompts, chunk_tokens, 1, Cut::Anywhere, plan.block), p));
  }
  plan.states += shared_rows(spec, sequences, p) + kept_choices(spec, sequences) +
                 static_cast<uint64_t>(rows) * choice_bytes_per_token(spec, sequences);
  plan.activations = std::max(static_cast<uint64_t>(rows * most_activations(spec)) * element_bytes(p),
                              sanity_logits(spec, sequences, p));
  return plan;
}

}  // namespace

MemoryPlan plan_memory(const ModelSpec& spec, const ModelWeights& weights, const SequencePlan& sequences,
                       const MemoryOptions& options) {
  if (options.device.own)
    return plan_device_memory(spec, sequences, options,
                              weights.text.may_decode() ? WeightForm::Encoded : WeightForm::Plain);
  MemoryPlan base;
  base.block = options.block;
  base.program = kProgramBytes;
  base.budget = options.budget ? options.budget : available_memory();
  base.statistics = options.statistics_bytes;
  add_weights(base, spec, weights, !sequences.sanity.empty(), options.precision);
  base.mapped += encoder_bytes(sequences.prompts);
  for (const auto* list : {&sequences.measured, &sequences.warmup, &sequences.sanity})
    for (const Sequence& s : *list)
      base.residual += static_cast<uint64_t>(s.n_tokens * spec.residual_width()) * element_bytes(options.precision);

  const int64_t wanted = options.chunk_tokens ? options.chunk_tokens : useful_rows(spec);
  int64_t chunk = batch_rows(sequences.prompts, wanted);
  const int64_t fewest = batch_rows(sequences.prompts, 0);
  MemoryPlan plan = with_chunk(spec, sequences, base, chunk, options.precision);
  while (plan.total() > plan.budget && chunk > fewest && !options.chunk_tokens) {
    chunk = batch_rows(sequences.prompts, chunk / 2);
    plan = with_chunk(spec, sequences, base, chunk, options.precision);
  }
  if (plan.total() > plan.budget)
    fail("the run needs " + bytes_text(plan.total()) + " of memory, the budget is " + bytes_text(plan.budget) +
         " (largest layer " + bytes_text(plan.weights + plan.mapped) + ", residual stream " +
         bytes_text(plan.residual) + ", one batch of " + std::to_string(chunk) + " tokens " +
         bytes_text(plan.activations) + ", states " + bytes_text(plan.states) + ", statistics " +
         bytes_text(plan.statistics) + "); fewer prompts, passes or --chunk-tokens need less");
  return plan;
}

int64_t useful_rows(const ModelSpec& spec) {
  double rows = kUsefulRows;
  for (const LayerSpec& layer : spec.layers) rows = std::max(rows, kExpertRows / layer.expert_share);
  return static_cast<int64_t>(std::min<double>(rows, kMostUsefulRows));
}

}  // namespace kvcal
