// Queries that grow with their position, after RoPE, by 1 + beta ln(1 + floor(position / original)): Ministral 3 and
// Mistral 4.
#pragma once

#include "base/json.h"
#include "model/batch.h"
#include "ops/ops.h"

namespace kvcal {

struct QueryGrowth {
  double beta = 0;
  int64_t original = 1;  // positions per step
};

/// Either llama_4_scaling {beta, original_max_position_embeddings} or the rope table's llama_4_scaling_beta.
QueryGrowth read_query_growth(const Json& text);

/// x [tokens, heads, width] or [tokens, width] times the factor of each token, which stays F32 as in servers; the
/// reference framework rounds it to the model's dtype first.
Tensor grown(Ops& op, const Tensor& x, const QueryGrowth& growth, const Batch& batch);

}  // namespace kvcal
