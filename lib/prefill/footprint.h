// The parts of a run's memory that the plans for the host and for a device count alike.
#pragma once

#include <cstdint>

#include "model/model_spec.h"
#include "ops/ops.h"
#include "prefill/sequence_plan.h"

namespace kvcal {

/// Bytes of an activation, and of a weight in computing form.
uint64_t element_bytes(Precision precision);

/// Elements that a token's activations take in the layer that takes most.
int64_t most_activations(const ModelSpec& spec);

/// Bytes of the largest recurrent state of a sequence, and of a token's rows in the largest cache.
uint64_t largest_recurrent_state(const ModelSpec& spec);
uint64_t largest_kv_row(const ModelSpec& spec, Precision precision);

/// Bytes of the column norms of a layer's output projection, where it has attention.
uint64_t column_norm_bytes(const ModelSpec& spec, const LayerSpec& layer);

/// What the states of a layer take, given what the rows of the largest cache and the largest recurrent states do: the
/// more of the two, or both where a layer has a cache beside a recurrent state.
uint64_t layer_states(const ModelSpec& spec, uint64_t rows, uint64_t recurrent);

/// Bytes of the rows that layers keep for later ones that share their cache: of all sequences of the run, together.
uint64_t shared_rows(const ModelSpec& spec, const SequencePlan& sequences, Precision precision);

/// Bytes of the choices of keys for a token, where there are such: of the batch, and of all that later layers take.
uint64_t choice_bytes_per_token(const ModelSpec& spec, const SequencePlan& sequences);
uint64_t kept_choices(const ModelSpec& spec, const SequencePlan& sequences);

/// Bytes of the sanity sequences' logits: every row of theirs at once, as computed and as F32, with what the head makes
/// of streams before.
uint64_t sanity_logits(const ModelSpec& spec, const SequencePlan& sequences, Precision precision);

}  // namespace kvcal
