// State that a layer carries from one chunk of a sequence to the next, and never anywhere else.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "model/batch.h"
#include "model/model_spec.h"
#include "ops/ops.h"

namespace kvcal {

/// Everything is absent, that is zero, in a fresh sequence.
struct LayerState {
  KvRows kv;
  KvRows latent;  // MLA: the cache's own rows and their latent parts; of a shared cache in blocks its owner's (gemma4)
  ConvState conv;
  DeltaState delta;
  SsmState ssm;
};

/// The states of one layer, by sequence. Lives outside the per-batch arena; one object per layer, so that nothing can
/// flow from one layer, pass or warm-up into another, but for the rows of a cache that a later layer shares.
class LayerStates {
 public:
  /// Shared: rows of all sequences are kept, also of whole and finished ones.
  enum class Rows : uint8_t { OfCutSequences, Shared };

  /// `owner`: the states of the layer whose rows this one reads; must outlive these.
  /// `stored`: what recurrent states are rounded to between two tokens; F32: they are not.
  explicit LayerStates(Rows rows = Rows::OfCutSequences, const LayerStates* owner = nullptr, DType stored = DType::F32)
      : rows_(rows), owner_(owner), stored_(stored) {}

  /// The state of a sequence, fresh at its first use.
  LayerState& own(int64_t sequence) { return states_[sequence]; }

  /// Frees a sequence's state once its last chunk is through.
  void finish(int64_t sequence) {
    if (rows_ != Rows::Shared) states_.erase(sequence);
  }

  /// For each span of the batch its key/value rows; null where the span is a whole sequence and nothing is kept.
  std::vector<KvRows*> kv_rows(const Batch& batch);
  /// The same of KvRows::latent.
  std::vector<KvRows*> latent_rows(const Batch& batch);
  /// For each span the rows that the owner of the cache has kept.
  std::vector<const KvRows*> owner_rows(const Batch& batch) const;
  std::vector<ConvState*> conv_states(const Batch& batch);
  std::vector<DeltaState*> delta_states(const Batch& batch);
  std::vector<SsmState*> ssm_states(const Batch& batch);

 private:
  template <class State>
  std::vector<State*> recurrent_states(const Batch& batch, State LayerState::*state);

  Rows rows_;
  const LayerStates* owner_;
  DType stored_;
  std::unordered_map<int64_t, LayerState> states_;
};

/// The states of a run through all layers: a layer's live from begin() to end(), or to the end of the last layer that
/// shares its cache.
class RunStates {
 public:
  /// `stored`: of recurrent states, as LayerStates says.
  explicit RunStates(const ModelSpec& spec, DType stored = DType::F32) : spec_(spec), stored_(stored) {}

  /// Layers begin in ascending order. The same again without an end() between.
  LayerStates& begin(int layer);
  void end(int layer);

 private:
  const ModelSpec& spec_;
  DType stored_;
  std::map<int, LayerStates> layers_;
};

}  // namespace kvcal
