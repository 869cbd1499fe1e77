// State that a recurrent layer carries from token to token, and what those of state-space layers are computed from.
#pragma once

#include <span>

#include "ops/weight_loader.h"

namespace kvcal {

/// Of the gated delta rule; absent = fresh sequence = zeros.
struct DeltaState {
  Owned s;                    // F32 [n_value_heads, head_dim_k, head_dim_v]
  DType stored = DType::F32;  // F32, BF16 or F16: each token leaves it rounded to this; its own output is not of that
};

/// Of ssd or selective_scan; absent = fresh sequence = zeros.
struct SsmState {
  Owned s;                    // F32 [n_heads, n_state, head_dim], or [channels, n_state]
  DType stored = DType::F32;  // as above
};

/// How all of them are stored; those that are not kept are F32.
template <class State>
DType stored_form(std::span<State* const> states) {
  return states.empty() || !states.front() ? DType::F32 : states.front()->stored;
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
