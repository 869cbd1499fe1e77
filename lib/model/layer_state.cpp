#include "model/layer_state.h"

#include <algorithm>

namespace kvcal {

std::vector<KvRows*> LayerStates::kv_rows(const Batch& batch) {
  std::vector<KvRows*> rows;
  for (const SequenceSpan& s : batch.sequences) {
    rows.push_back(s.whole && rows_ != Rows::Shared ? nullptr : &own(s.sequence).kv);
    if (rows.back()) rows.back()->max_tokens = s.sequence_tokens;
  }
  return rows;
}

std::vector<KvRows*> LayerStates::cut_rows(const Batch& batch, KvRows LayerState::*of_state) {
  std::vector<KvRows*> rows;
  for (const SequenceSpan& s : batch.sequences) {
    rows.push_back(s.whole ? nullptr : &(own(s.sequence).*of_state));
    if (rows.back()) rows.back()->max_tokens = s.sequence_tokens;
  }
  return rows;
}

static std::pair<int64_t, int64_t> key_of(const Batch& batch) {
  const SequenceSpan& first = batch.sequences.at(0);
  return {first.sequence, first.span.first_position};
}

void LayerStates::keep_choice(const Batch& batch, const KeyChoice& choice) {
  if (keeps_choices_) choices_.insert_or_assign(key_of(batch), choice);
}

KeyChoice LayerStates::earlier_choice(const Batch& batch) const {
  const auto found = earlier_.picker->choices_.find(key_of(batch));
  return found == earlier_.picker->choices_.end() ? KeyChoice{} : found->second;
}

std::vector<const KvRows*> LayerStates::owner_rows(const Batch& batch) const {
  std::vector<const KvRows*> rows;
  for (const SequenceSpan& s : batch.sequences) {
    const LayerStates* owner = earlier_.owner;
    const auto kept = owner ? owner->states_.find(s.sequence) : decltype(states_)::const_iterator();
    rows.push_back(owner && kept != owner->states_.end() ? &kept->second.kv : nullptr);
  }
  return rows;
}

template <class State>
std::vector<State*> LayerStates::recurrent_states(const Batch& batch, State LayerState::*state) {
  std::vector<State*> states;
  for (const SequenceSpan& s : batch.sequences) {
    const bool kept = !s.whole || recurrent_.stored.rounds() || recurrent_.counter;
    states.push_back(kept ? &(own(s.sequence).*state) : nullptr);
    if (!kept) continue;
    states.back()->stored = recurrent_.stored;
    states.back()->counted = {recurrent_.counter, recurrent_.layer, s.sequence, s.sequence_tokens};
  }
  return states;
}

std::vector<SsmState*> LayerStates::ssm_states(const Batch& batch) { return recurrent_states(batch, &LayerState::ssm); }

std::vector<DeltaState*> LayerStates::delta_states(const Batch& batch) {
  return recurrent_states(batch, &LayerState::delta);
}

std::vector<ConvState*> LayerStates::conv_states(const Batch& batch) {
  std::vector<ConvState*> states;
  for (const SequenceSpan& s : batch.sequences) states.push_back(s.whole ? nullptr : &own(s.sequence).conv);
  return states;
}

LayerStates& RunStates::begin(int layer) {
  const auto found = layers_.find(layer);
  if (found != layers_.end()) return found->second;
  const LayerSpec& l = spec_.layers[static_cast<size_t>(layer)];
  const bool shared = l.cache >= 0 && spec_.n_sharing(l.cache) > 0;
  EarlierStates earlier;
  if (l.shares_cache >= 0) earlier.owner = &layers_.at(spec_.caches[static_cast<size_t>(l.shares_cache)].layer);
  if (l.picker >= 0) earlier.picker = &layers_.at(l.picker);
  const auto rows = shared ? LayerStates::Rows::Shared : LayerStates::Rows::OfCutSequences;
  RecurrentUse recurrent = recurrent_;
  recurrent.layer = layer;
  if (recurrent.stored.rounds()) recurrent.stored.layer = layer;
  return layers_.emplace(layer, LayerStates(rows, earlier, recurrent, spec_.last_taking_choices(layer) > layer))
      .first->second;
}

void RunStates::end(int layer) {
  std::erase_if(layers_, [&](const auto& entry) {
    const int cache = spec_.layers[static_cast<size_t>(entry.first)].cache;
    const int last = cache < 0 ? entry.first : spec_.last_reader(cache);
    return std::max(last, spec_.last_taking_choices(entry.first)) <= layer;
  });
}

}  // namespace kvcal
