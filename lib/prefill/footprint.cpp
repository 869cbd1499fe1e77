#include "prefill/footprint.h"

#include <algorithm>

namespace kvcal {

uint64_t element_bytes(Precision precision) { return precision == Precision::BF16 ? 2 : 4; }

int64_t most_activations(const ModelSpec& spec) {
  int64_t most = 0;
  for (const LayerSpec& l : spec.layers) most = std::max(most, l.activations);
  return most;
}

uint64_t largest_recurrent_state(const ModelSpec& spec) {
  uint64_t largest = 0;
  for (const LayerSpec& l : spec.layers) largest = std::max(largest, static_cast<uint64_t>(l.state_bytes));
  return largest;
}

uint64_t largest_kv_row(const ModelSpec& spec, Precision precision) {
  uint64_t largest = 0;
  for (const KvLayout& c : spec.caches)
    largest = std::max(largest,
                       static_cast<uint64_t>(c.n_kv_heads * (c.head_dim_k + c.head_dim_v)) * element_bytes(precision));
  for (const LayerSpec& l : spec.layers)
    largest = std::max(largest, static_cast<uint64_t>(l.kept_row) * element_bytes(precision));
  return largest;
}

uint64_t column_norm_bytes(const ModelSpec& spec, const LayerSpec& layer) {
  const int cache = layer.cache >= 0 ? layer.cache : layer.shares_cache;
  if (cache < 0) return 0;
  const KvLayout& layout = spec.caches[static_cast<size_t>(cache)];
  return static_cast<uint64_t>(layout.n_heads * layout.head_dim_v) * sizeof(float);
}

uint64_t layer_states(const ModelSpec& spec, uint64_t rows, uint64_t recurrent) {
  const auto has_both = [](const LayerSpec& l) { return l.cache >= 0 && l.state_bytes > 0; };
  const bool both = std::any_of(spec.layers.begin(), spec.layers.end(), has_both);
  return both ? rows + recurrent : std::max(rows, recurrent);
}

uint64_t shared_rows(const ModelSpec& spec, const SequencePlan& sequences, Precision precision) {
  constexpr uint64_t kPadding = 512;  // of a sequence's keys and values on a device
  uint64_t row = 0, n_caches = 0;
  for (const KvLayout& c : spec.caches)
    if (spec.n_sharing(c.cache) > 0) {
      row += static_cast<uint64_t>(c.n_kv_heads * (c.head_dim_k + c.head_dim_v)) * element_bytes(precision);
      ++n_caches;
    }
  uint64_t bytes = 0;
  for (const auto* list : {&sequences.measured, &sequences.warmup, &sequences.sanity})
    bytes += static_cast<uint64_t>(tokens_of(*list)) * row + list->size() * n_caches * kPadding;
  return bytes;
}

uint64_t choice_bytes_per_token(const ModelSpec& spec, const SequencePlan& sequences) {
  int64_t longest = 0;
  for (const auto* list : {&sequences.measured, &sequences.warmup, &sequences.sanity})
    for (const Sequence& s : *list) longest = std::max(longest, s.n_tokens);
  if (spec.indexed_beyond == 0 || longest <= spec.indexed_beyond) return 0;
  return static_cast<uint64_t>(spec.n_pickers * ((longest + kPickBits - 1) / kPickBits)) * sizeof(uint64_t);
}

uint64_t kept_choices(const ModelSpec& spec, const SequencePlan& sequences) {
  if (std::ranges::none_of(spec.layers, [](const LayerSpec& l) { return l.picker >= 0; })) return 0;
  int64_t n = 0;
  for (const auto* list : {&sequences.measured, &sequences.warmup, &sequences.sanity}) n += tokens_of(*list);
  return static_cast<uint64_t>(n) * choice_bytes_per_token(spec, sequences);
}

uint64_t sanity_logits(const ModelSpec& spec, const SequencePlan& sequences, Precision precision) {
  const uint64_t logits = static_cast<uint64_t>(spec.vocab) * (element_bytes(precision) + sizeof(float));
  const uint64_t before = static_cast<uint64_t>(spec.head_activations) * element_bytes(precision);
  return static_cast<uint64_t>(tokens_of(sequences.sanity)) * (logits + before);
}

}  // namespace kvcal
