#include "model/layer_state.h"

namespace kvcal {

std::vector<KvRows*> LayerStates::kv_rows(const Batch& batch) {
  std::vector<KvRows*> rows;
  for (const SequenceSpan& s : batch.sequences) {
    rows.push_back(s.whole ? nullptr : &own(s.sequence).kv);
    if (rows.back()) rows.back()->max_tokens = s.sequence_tokens;
  }
  return rows;
}

std::vector<SsmState*> LayerStates::ssm_states(const Batch& batch) {
  std::vector<SsmState*> states;
  for (const SequenceSpan& s : batch.sequences) states.push_back(s.whole ? nullptr : &own(s.sequence).ssm);
  return states;
}

std::vector<ConvState*> LayerStates::conv_states(const Batch& batch) {
  std::vector<ConvState*> states;
  for (const SequenceSpan& s : batch.sequences) states.push_back(s.whole ? nullptr : &own(s.sequence).conv);
  return states;
}

std::vector<DeltaState*> LayerStates::delta_states(const Batch& batch) {
  std::vector<DeltaState*> states;
  for (const SequenceSpan& s : batch.sequences) states.push_back(s.whole ? nullptr : &own(s.sequence).delta);
  return states;
}

}  // namespace kvcal
