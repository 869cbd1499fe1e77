// State that a layer carries from one chunk of a sequence to the next, and never anywhere else.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "model/batch.h"
#include "ops/ops.h"

namespace kvcal {

/// Everything is absent, that is zero, in a fresh sequence.
struct LayerState {
  KvRows kv;
  ConvState conv;
  DeltaState delta;
  SsmState ssm;
};

/// The states of one layer, by sequence. Lives outside the per-batch arena; one object per layer, so that nothing can
/// flow from one layer, pass or warm-up into another.
class LayerStates {
 public:
  /// The state of a sequence, fresh at its first use.
  LayerState& own(int64_t sequence) { return states_[sequence]; }

  /// Frees a sequence's state once its last chunk is through.
  void finish(int64_t sequence) { states_.erase(sequence); }

  /// For each span of the batch its key/value rows; null where the span is a whole sequence and nothing is kept.
  std::vector<KvRows*> kv_rows(const Batch& batch);
  std::vector<ConvState*> conv_states(const Batch& batch);
  std::vector<DeltaState*> delta_states(const Batch& batch);
  std::vector<SsmState*> ssm_states(const Batch& batch);

 private:
  std::unordered_map<int64_t, LayerState> states_;
};

}  // namespace kvcal
