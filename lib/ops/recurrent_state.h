// State that a recurrent layer carries from token to token, and what those of state-space layers are computed from.
#pragma once

#include <span>

#include "ops/state_format.h"
#include "ops/weight_loader.h"

namespace kvcal {

/// Of the gated delta rule; absent = fresh sequence = zeros.
struct DeltaState {
  Owned s;             // F32 [n_value_heads, head_dim_k, head_dim_v]
  StateFormat stored;  // what it is rounded to where it is stored; the output of the token before is not of that
};

/// Of ssd or selective_scan; absent = fresh sequence = zeros.
struct SsmState {
  Owned s;             // F32 [n_heads, n_state, head_dim], or [channels, n_state]
  StateFormat stored;  // as above
};

/// How all of them are stored; those that are not kept are not rounded.
template <class State>
StateFormat format_of(std::span<State* const> states) {
  return states.empty() || !states.front() ? StateFormat{} : states.front()->stored;
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
