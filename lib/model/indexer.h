// The indexer of sparse attention (DeepSeek-V3.2, GLM-5): heads of its own score all earlier tokens and pick index_topk
// of them, which are the only ones that a query then attends to. Up to that many tokens it picks all, and the attention
// is the one without it; longer sequences are refused. Its tensors are passed over (docs/model-notes.md, "Sparse
// attention").
#pragma once

#include <optional>
#include <vector>

#include "checkpoint/weight_binder.h"
#include "model/model_spec.h"

namespace kvcal {

struct IndexerDims {
  int64_t n_picked = 0;  // keys that a query attends to
  int64_t n_heads = 0, head_dim = 0;
  std::vector<bool> has_own;  // per layer: picks for itself; else takes what the layer before had
};

/// index_topk, index_n_heads, index_head_dim; by layer indexer_types, else index_topk_pattern, else index_topk_freq and
/// index_skip_topk_offset. nullopt where the config has no index_topk and `n_heads`, a class's own number, is 0.
std::optional<IndexerDims> read_indexer(const Json& text, int64_t n_layers, int64_t n_heads);

/// What has_own makes of these: the query's projection, the key's, its layer norm, a weight for each head.
int64_t indexer_parameters(const IndexerDims& dims, int64_t hidden, int64_t q_rank);

/// Counts its tensors as used. `w` is positioned at the attention module.
void pass_over_indexer(const WeightBinder& w);

/// Throws for a sequence of `n_tokens` in which an indexer would not pick all keys; `what` it is, and the way out.
void check_all_attended(const ModelSpec& spec, int64_t n_tokens, const std::string& what, const std::string& way_out);

}  // namespace kvcal
