// Asks for every tensor of a model before anything runs: a missing or wrong-shaped one is found in the first seconds,
// not when its layer's turn comes.
#pragma once

#include "model/architecture.h"
#include "prefill/model_weights.h"

namespace kvcal {

/// Binds layers 0 .. n_layers - 1, and the head if asked for, without computing or keeping anything. Throws Error
/// naming layer and tensor.
void check_weights(const Model& model, ModelWeights& weights, int n_layers, bool with_head);

}  // namespace kvcal
