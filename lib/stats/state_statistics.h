// Recurrent states as a run has counted them, as plain data: a kind of site of their own, beside those of caches.
//
// A state is counted at fixed places of its sequence, next_counted(): the same for every batch, chunk and number of
// threads. Every number of it counts, rounded to bf16, as keys and values do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/model_spec.h"
#include "stats/statistics.h"

namespace kvcal {

/// What a layer keeps of a sequence: of each head [keys, values] numbers; where channels have states of their own
/// (Mamba-1), of the only head [values, keys].
struct StateLayout {
  int layer = 0;
  std::string kind;  // name_of(LayerKind)
  int64_t heads = 0, keys = 0, values = 0;
  int64_t head_size() const { return keys * values; }
  bool operator==(const StateLayout&) const = default;
};

struct StateStatistics {
  StateLayout layout;
  // A "token" is a state here, its place that of the last token which it has seen, its channel an index in the head.
  // Histograms, maxima and n_tokens only: what is kept by channel would be larger than the rest of the file.
  SiteStatistics counts;
};

/// Of the layers that have a long state, ascending.
std::vector<StateLayout> state_layouts(const ModelSpec& spec);

}  // namespace kvcal
