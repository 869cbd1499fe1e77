// Embeddings of models without rotation: a row for each position is added to the token's.
#pragma once

#include "model/layers/decoder_parts.h"

namespace kvcal {

/// spec.embedding and "NAME" [rows, hidden], of which position p has row p + offset.
struct PositionTable {
  const char* name;
  int64_t rows, offset = 0;
};

/// Its forward throws Error for a position that has no row.
std::unique_ptr<Embedding> load_positioned_embedding(const ModelSpec& spec, const PositionTable& positions,
                                                     WeightBinder& weights);

}  // namespace kvcal
