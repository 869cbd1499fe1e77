// Which keys the queries of a batch see, where an indexer picks them (docs/model-notes.md, "Sparse attention").
#pragma once

#include <cstdint>
#include <vector>

#include "model/kv_tap.h"
#include "ops/ops.h"

namespace kvcal {

class LayerStates;

/// As attention takes it: for sequences that are longer than what is picked. Shorter ones are seen whole, and an empty
/// choice stands for a batch of such.
struct KeyChoice {
  Owned picked;                // of pick_keys()
  std::vector<uint8_t> picks;  // by span of the batch: whether its sequence is that long

  /// The spec points to the choice from then on.
  void apply_to(AttentionSpec& spec) const {
    spec.picked = picked;
    spec.picks = picks;
  }
};

/// Chooses by what a layer's attention reads, h [tokens, hidden].
class KeyPicker {
 public:
  virtual ~KeyPicker() = default;
  virtual KeyChoice choose(Ops& op, const Tensor& h, const Batch& batch, LayerStates& states, KvTap& tap) const = 0;
};

}  // namespace kvcal
