// State that a recurrent layer carries from token to token, and what those of state-space layers are computed from.
#pragma once

#include <span>

#include "ops/state_format.h"
#include "ops/weight_loader.h"

namespace kvcal {

/// A state as it is after `passed` tokens of a sequence; next_counted() says how many those are.
struct PassedState {
  int64_t sequence, passed;
  Tensor state;  // [n_heads, ...] as its layer has it
};

/// Counts states on their way through an op.
class StateCounter {
 public:
  virtual ~StateCounter() = default;

  /// States of this layer, all at once where several sequences have come to such a place. They last until this returns,
  /// on a device until what is queued now is done, and are all on the host, or all on the device.
  virtual void count_states(int layer, std::span<const PassedState> states) = 0;
};

/// Whose state it is, where it is counted.
struct CountedState {
  StateCounter* by = nullptr;  // null: it is not
  int layer = 0;
  int64_t sequence = 0, sequence_tokens = 0;
};

/// Of the gated delta rule; absent = fresh sequence = zeros.
struct DeltaState {
  Owned s;               // F32 [n_value_heads, head_dim_k, head_dim_v]
  StateFormat stored;    // what it is rounded to where it is stored; the output of the token before is not of that
  CountedState counted;  // after it is rounded
};

/// Of ssd or selective_scan; absent = fresh sequence = zeros.
struct SsmState {
  Owned s;             // F32 [n_heads, n_state, head_dim], or [channels, n_state]
  StateFormat stored;  // as above
  CountedState counted;
};

/// How all of them are stored; those that are not kept are not rounded.
template <class State>
StateFormat format_of(std::span<State* const> states) {
  return states.empty() || !states.front() ? StateFormat{} : states.front()->stored;
}

/// Whether some of them are counted.
template <class State>
bool are_counted(std::span<State* const> states) {
  return !states.empty() && states.front() && states.front()->counted.by;
}

/// What a state-space layer sees of its tokens, after the convolution.
struct SsmInputs {
  Tensor x, dt, b, c;
};

/// Its parameters, F32.
struct SsmWeights {
  Tensor a_log, dt_bias, d;
};

}  // namespace kvcal
