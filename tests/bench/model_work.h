// The floating-point operations of a model's layers, counted from a checkpoint: what rates of a whole model divide by.
#pragma once

#include <cstdint>
#include <vector>

#include "calibrate/opened_model.h"

namespace kvcal::bench {

/// A matrix product that tokens meet: x [tokens, in] -> [tokens, out].
struct ModelProduct {
  int64_t out = 0, in = 0;
  double per_token = 0;  // how often a token meets one of this shape; each of n experts, k active, counts k / n

  double flops() const { return 2.0 * per_token * static_cast<double>(out * in); }
};

/// Those of all layers, by shape; of the last layer with a cache only what makes its queries, keys and values, since
/// nothing after them is run. Reads names and shapes of tensors: experts must be stored one by one.
std::vector<ModelProduct> products_of(const OpenedModel& model);

/// Of one token in a prompt of `length` tokens, in what mixes tokens: causal attention, expanded where it is latent,
/// and gated delta nets. Other recurrences count as nothing.
double mixing_flops(const OpenedModel& model, int64_t length);

}  // namespace kvcal::bench
