#include "prefill/device_plan.h"

#include <algorithm>
#include <array>

#include "base/available_memory.h"
#include "base/error.h"
#include "prefill/footprint.h"

namespace kvcal {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kLibraryBytes =
    384 * kMiB;                              // kernels loaded on first use, workspaces of matrix products and attention
constexpr uint64_t kRingBytes = 160 * kMiB;  // pinned: the ring of the background reader, arrays on their way
// The same of the device, where weights come as they are stored: decoded there, or by the threads into that ring. So no
// more of the host is needed; scales that threads decode with are of a few weights at a time, a part of kHostBytes.
constexpr uint64_t kDecodingBytes = 128 * kMiB;
constexpr uint64_t kHostBytes = 160 * kMiB;  // the program itself

// Rows of a batch. A dense layer's products reach their rate with fewer than 64 Ki; 256 Ki give each of 256 experts, 8
// active, 8 Ki rows. Below 16 Ki the device idles between kernels: then the residual stream rather leaves it.
constexpr int64_t kMostRows = 256 << 10, kFewRows = 16 << 10;

// Every tensor is padded to 256 bytes; small arrays of a batch: spans, offsets, positions.
constexpr uint64_t kPaddingBytes = kMiB, kSmallBytes = kMiB / 4, kSmallBytesPerToken = 64;

// Sampled attention: what describes a row and its sequence, twice where it is thorough; the numbers of rows that are
// gathered; largest magnitudes of keys and values, by position.
constexpr uint64_t kSampleBytesPerToken = 128 + 16, kMagnitudeBytes = 8;

// Tokens whose choices of keys, a bit each, take as much as the ranks of a slice do at least (do_pick_keys()).
constexpr int64_t kLeastRanked = 512;

/// What does not depend on the size of the batches.
struct Run {
  const ModelSpec& spec;
  const SequencePlan& sequences;
  const MemoryOptions& options;
  WeightForm weights;
  uint64_t element;

  Run(const ModelSpec& s, const SequencePlan& q, const MemoryOptions& o, WeightForm w)
      : spec(s), sequences(q), options(o), weights(w), element(element_bytes(o.precision)) {}

  std::array<const std::vector<Sequence>*, 3> groups() const {
    return {&sequences.measured, &sequences.warmup, &sequences.sanity};
  }
  bool logits() const { return !sequences.sanity.empty(); }
};

/// Two layers, one of which is loading, or the head alone.
uint64_t weight_bytes(const Run& run) {
  const size_t n_layers =
      run.logits() ? run.spec.layers.size() : static_cast<size_t>(run.spec.last_counted_layer() + 1);
  uint64_t layer = 0;
  for (size_t i = 0; i < n_layers; ++i)
    layer =
        std::max(layer, static_cast<uint64_t>(run.spec.layers[i].parameters + run.spec.layers[i].copies) * run.element +
                            column_norm_bytes(run.spec, run.spec.layers[i]));
  const uint64_t streams = static_cast<uint64_t>(run.spec.stream_parameters()) * run.element;  // at either end
  const uint64_t head = run.logits() ? static_cast<uint64_t>(run.spec.vocab * run.spec.hidden) * run.element : 0;
  return std::max(2 * (layer + kPaddingBytes), head + kPaddingBytes) + streams;
}

/// How many sequences a batch has at most, of whichever of them a device gets: the shortest, as many as fill it. Where
/// rows are kept by blocks, no device gets a part.
size_t most_in_batch(const Run& run, const std::vector<Sequence>& list, int64_t chunk_tokens) {
  size_t most = 0;
  if (run.options.block > 0) {
    for (const Batch& batch :
         make_batches(list, run.sequences.prompts, chunk_tokens, 1, Cut::LongOnly, run.options.block))
      most = std::max(most, batch.sequences.size());
    return most;
  }
  std::vector<int64_t> lengths;
  for (const Sequence& s : list) lengths.push_back(s.n_tokens);
  std::ranges::sort(lengths);
  for (int64_t tokens = 0; most < lengths.size() && (most == 0 || tokens + lengths[most] <= chunk_tokens); ++most)
    tokens += lengths[most];
  return most;
}

/// Only a sequence that is longer than a batch has states, and there is one at a time: its rows, or its recurrent state
/// with the next window of the convolution beside the last. Where states are rounded or counted, every sequence has
/// one.
uint64_t state_bytes(const Run& run, int64_t chunk_tokens) {
  const uint64_t recurrent = largest_recurrent_state(run.spec),
                 kv_row = largest_kv_row(run.spec, run.options.precision);
  uint64_t worst = 0;
  for (const auto* list : run.groups())
    for (const Sequence& s : *list)
      if (s.n_tokens > (run.options.block > 0 ? std::min(run.options.block, chunk_tokens) : chunk_tokens))
        worst = std::max(
            worst, layer_states(run.spec, static_cast<uint64_t>(s.n_tokens) * kv_row, 4 * recurrent) + kPaddingBytes);
  if (!run.options.keeps_states) return worst;
  size_t most = 0;
  for (const auto* list : run.groups()) most = std::max(most, most_in_batch(run, *list, chunk_tokens));
  return worst + most * (recurrent + kPaddingBytes);
}

/// Of the longest sequence that is measured: positions before the batch have magnitudes, too.
uint64_t longest_measured(const Run& run) {
  int64_t longest = 0;
  for (const Sequence& s : run.sequences.measured) longest = std::max(longest, s.n_tokens);
  return static_cast<uint64_t>(longest);
}

/// What the largest batch of any group allocates; of the sanity sequences also the logits.
uint64_t activation_bytes(const Run& run, int64_t rows) {
  const uint64_t per_token = static_cast<uint64_t>(most_activations(run.spec)) * run.element + kSmallBytesPerToken +
                             kSampleBytesPerToken + kMagnitudeBytes;
  const uint64_t ranks =  // of keys, and of blocks of them
      2 * static_cast<uint64_t>(std::max(rows, kLeastRanked)) * choice_bytes_per_token(run.spec, run.sequences);
  const uint64_t gathered =
      static_cast<uint64_t>(std::min(rows, run.options.sampled_rows)) * largest_kv_row(run.spec, run.options.precision);
  return std::max(static_cast<uint64_t>(rows) * per_token + longest_measured(run) * kMagnitudeBytes + gathered + ranks,
                  sanity_logits(run.spec, run.sequences, run.options.precision)) +
         kSmallBytes;
}

MemoryPlan with_chunk(const Run& run, int64_t chunk_tokens, ResidualPlace place) {
  MemoryPlan plan;
  plan.on_device = true;
  plan.residual_place = place;
  plan.chunk_tokens = chunk_tokens;
  plan.block = run.options.block;
  plan.budget = run.options.device.free_bytes;
  if (run.options.budget) plan.budget = std::min(plan.budget, run.options.budget);
  plan.program = kLibraryBytes + (run.weights == WeightForm::Encoded ? kDecodingBytes : 0);
  plan.one_memory = run.options.device.is_hosts;
  plan.host = kHostBytes + static_cast<uint64_t>(run.options.n_devices) * (kRingBytes + run.options.statistics_bytes);
  plan.weights = weight_bytes(run);
  plan.states = state_bytes(run, chunk_tokens) + shared_rows(run.spec, run.sequences, run.options.precision) +
                kept_choices(run.spec, run.sequences);
  plan.statistics = run.options.device_statistics_bytes;
  if (plan.statistics) plan.statistics += kPaddingBytes;
  int64_t most = 0;
  for (const auto* list : run.groups()) {
    const bool measured = list == &run.sequences.measured;
    const int64_t groups = measured ? run.options.measured_groups : 1;
    const int64_t n = (measured && run.options.device_tokens ? run.options.device_tokens : tokens_of(*list)) / groups;
    const uint64_t row = static_cast<uint64_t>(run.spec.residual_width()) * run.element;
    const int64_t rows = std::min(n, chunk_tokens);
    most = std::max(most, rows);
    const uint64_t kept = static_cast<uint64_t>(place == ResidualPlace::Device ? n : 2 * rows) * row + (n ? 1024 : 0);
    plan.residual += static_cast<uint64_t>(groups) * kept;
    if (place == ResidualPlace::Host) plan.host += static_cast<uint64_t>(run.options.n_devices * groups * n) * row;
  }
  plan.states += static_cast<uint64_t>(most) * choice_bytes_per_token(run.spec, run.sequences);
  plan.activations = activation_bytes(run, most);
  return plan;
}

bool fits(const MemoryPlan& plan) { return plan.total() <= plan.budget; }

[[noreturn]] void refuse(const MemoryPlan& plan) {
  fail("the run needs " + bytes_text(plan.total()) + " of the device's memory, the budget is " +
       bytes_text(plan.budget) + " (two layers " + bytes_text(plan.weights) + ", residual stream " +
       bytes_text(plan.residual) + (plan.residual_place == ResidualPlace::Host ? " for two batches" : "") +
       ", one batch of " + std::to_string(plan.chunk_tokens) + " tokens " + bytes_text(plan.activations) + ", states " +
       bytes_text(plan.states) + ", statistics " + bytes_text(plan.statistics) + ", libraries " +
       bytes_text(plan.program) + (plan.one_memory ? ", pinned for transfers " + bytes_text(plan.host) : "") +
       "); reduce --chunk-tokens or use shorter sequences");
}

}  // namespace

MemoryPlan plan_device_memory(const ModelSpec& spec, const SequencePlan& sequences, const MemoryOptions& options,
                              WeightForm weights) {
  const Run run(spec, sequences, options, weights);
  const int64_t asked = batch_rows(sequences.prompts, options.chunk_tokens);
  const int64_t few = batch_rows(sequences.prompts, 0);
  const int64_t first = options.chunk_tokens ? asked : kMostRows;
  const auto least = [&](int64_t rows) { return options.chunk_tokens ? asked : rows; };
  const auto largest = [&](ResidualPlace place, int64_t fewest) {
    MemoryPlan plan = with_chunk(run, first, place);
    for (int64_t chunk = first; !fits(plan) && chunk > fewest;)
      plan = with_chunk(run, chunk = std::max(chunk / 2, fewest), place);
    return plan;
  };
  MemoryPlan plan = largest(ResidualPlace::Device, least(kFewRows));
  if (fits(plan)) return plan;
  plan = largest(ResidualPlace::Host, least(few));
  if (const MemoryPlan small = largest(ResidualPlace::Device, least(few));
      fits(small) && (!fits(plan) || plan.chunk_tokens <= small.chunk_tokens))
    return small;
  if (!fits(plan)) refuse(plan);
  if (const uint64_t available = available_memory(); plan.host > available)
    fail("the residual stream does not fit in device memory; in host memory it needs " + bytes_text(plan.host) +
         ", of which " + bytes_text(available) + " are available; use fewer prompts or passes");
  return plan;
}

}  // namespace kvcal
