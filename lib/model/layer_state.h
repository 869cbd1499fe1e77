// State that a layer carries from one chunk of a sequence to the next, and never anywhere else.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "model/batch.h"
#include "model/key_choice.h"
#include "model/model_spec.h"
#include "ops/ops.h"

namespace kvcal {

/// Everything is absent, that is zero, in a fresh sequence.
struct LayerState {
  KvRows kv;
  KvRows index;   // an indexer's keys
  KvRows latent;  // MLA: the cache's own rows and their latent parts; of a shared cache in blocks its owner's (gemma4)
  ConvState conv;
  DeltaState delta;
  SsmState ssm;
};

/// The states of earlier layers: of those whose rows and whose choices of keys a layer reads.
struct EarlierStates {
  const LayerStates *owner = nullptr, *picker = nullptr;
};

/// What becomes of recurrent states beside being read.
struct RecurrentUse {
  StateFormat stored{};             // how they are
  StateCounter* counter = nullptr;  // who counts them; null: nobody
  int layer = 0;                    // whose they are, to the counter
};

/// The states of one layer, by sequence. Lives outside the per-batch arena; one object per layer, so that nothing can
/// flow from one layer, pass or warm-up into another, but for the rows of a cache that a later layer shares, and the
/// choice of keys that it takes.
class LayerStates {
 public:
  /// Shared: rows of all sequences are kept, also of whole and finished ones.
  enum class Rows : uint8_t { OfCutSequences, Shared };

  /// `earlier` must outlive these. `recurrent`: how recurrent states are stored. `keeps_choices`: later layers take
  /// them.
  explicit LayerStates(Rows rows = Rows::OfCutSequences, const EarlierStates& earlier = {},
                       const RecurrentUse& recurrent = {}, bool keeps_choices = false)
      : rows_(rows), earlier_(earlier), recurrent_(recurrent), keeps_choices_(keeps_choices) {}

  /// The state of a sequence, fresh at its first use.
  LayerState& own(int64_t sequence) { return states_[sequence]; }

  /// Frees a sequence's state once its last chunk is through.
  void finish(int64_t sequence) {
    if (rows_ != Rows::Shared) states_.erase(sequence);
  }

  /// For each span of the batch its key/value rows; null where the span is a whole sequence and nothing is kept.
  std::vector<KvRows*> kv_rows(const Batch& batch);
  /// The same of other rows; those of sequences that are whole are never kept.
  std::vector<KvRows*> latent_rows(const Batch& batch) { return cut_rows(batch, &LayerState::latent); }
  std::vector<KvRows*> index_rows(const Batch& batch) { return cut_rows(batch, &LayerState::index); }
  /// For each span the rows that the owner of the cache has kept.
  std::vector<const KvRows*> owner_rows(const Batch& batch) const;
  /// The choice of keys for a batch, and what an earlier layer has chosen for it: nothing where it needed no choice.
  void keep_choice(const Batch& batch, const KeyChoice& choice);
  KeyChoice earlier_choice(const Batch& batch) const;
  void forget_choices() { choices_.clear(); }
  std::vector<ConvState*> conv_states(const Batch& batch);
  std::vector<DeltaState*> delta_states(const Batch& batch);
  std::vector<SsmState*> ssm_states(const Batch& batch);

 private:
  template <class State>
  std::vector<State*> recurrent_states(const Batch& batch, State LayerState::*state);
  std::vector<KvRows*> cut_rows(const Batch& batch, KvRows LayerState::*rows);

  Rows rows_;
  EarlierStates earlier_;
  RecurrentUse recurrent_;
  bool keeps_choices_;
  std::unordered_map<int64_t, LayerState> states_;
  // By the first sequence of a batch and the position at which it begins: all layers see the same batches.
  std::map<std::pair<int64_t, int64_t>, KeyChoice> choices_;
};

/// The states of a run through all layers: a layer's live from begin() to end(), or to the end of the last layer that
/// shares its cache or takes its choices.
class RunStates {
 public:
  /// `stored`, `counter`: of recurrent states, as RecurrentUse says.
  explicit RunStates(const ModelSpec& spec, const StateFormat& stored = {}, StateCounter* counter = nullptr)
      : spec_(spec), recurrent_{stored, counter, 0} {}

  /// Layers begin in ascending order. The same again without an end() between.
  LayerStates& begin(int layer);
  void end(int layer);
  /// Where every layer has seen the batches so far, and none will see them again.
  void forget_choices() {
    for (auto& [layer, states] : layers_) states.forget_choices();
  }

 private:
  const ModelSpec& spec_;
  RecurrentUse recurrent_;
  std::map<int, LayerStates> layers_;
};

}  // namespace kvcal
