#include "model/layer_state.h"

namespace kvcal {

std::vector<KvRows*> LayerStates::kv_rows(const Batch& batch) {
  std::vector<KvRows*> rows;
  for (const SequenceSpan& s : batch.sequences) {
    rows.push_back(s.whole && rows_ != Rows::Shared ? nullptr : &own(s.sequence).kv);
    if (rows.back()) rows.back()->max_tokens = s.sequence_tokens;
  }
  return rows;
}

std::vector<KvRows*> LayerStates::latent_rows(const Batch& batch) {
  std::vector<KvRows*> rows;
  for (const SequenceSpan& s : batch.sequences) {
    rows.push_back(s.whole ? nullptr : &own(s.sequence).latent);
    if (rows.back()) rows.back()->max_tokens = s.sequence_tokens;
  }
  return rows;
}

std::vector<const KvRows*> LayerStates::owner_rows(const Batch& batch) const {
  std::vector<const KvRows*> rows;
  for (const SequenceSpan& s : batch.sequences) {
    const auto kept = owner_ ? owner_->states_.find(s.sequence) : decltype(states_)::const_iterator();
    rows.push_back(owner_ && kept != owner_->states_.end() ? &kept->second.kv : nullptr);
  }
  return rows;
}

template <class State>
std::vector<State*> LayerStates::recurrent_states(const Batch& batch, State LayerState::*state) {
  std::vector<State*> states;
  for (const SequenceSpan& s : batch.sequences) {
    states.push_back(s.whole && stored_ == DType::F32 ? nullptr : &(own(s.sequence).*state));
    if (states.back()) states.back()->stored = stored_;
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
  const LayerStates* owner =
      l.shares_cache < 0 ? nullptr : &layers_.at(spec_.caches[static_cast<size_t>(l.shares_cache)].layer);
  const auto rows = shared ? LayerStates::Rows::Shared : LayerStates::Rows::OfCutSequences;
  return layers_.emplace(layer, LayerStates(rows, owner, stored_)).first->second;
}

void RunStates::end(int layer) {
  std::erase_if(layers_, [&](const auto& entry) {
    const int cache = spec_.layers[static_cast<size_t>(entry.first)].cache;
    return (cache < 0 ? entry.first : spec_.last_reader(cache)) <= layer;
  });
}

}  // namespace kvcal
