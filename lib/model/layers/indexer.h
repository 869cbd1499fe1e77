// The indexer of sparse attention (DeepSeek-V3.2, GLM-5): heads of its own score all earlier tokens and pick index_topk
// of them, which are the only ones that a query then attends to (docs/model-notes.md, "Sparse attention"). Up to that
// many tokens it picks all, and the attention is the one without it.
#pragma once

#include <optional>
#include <vector>

#include "checkpoint/weight_binder.h"
#include "model/key_choice.h"
#include "model/layer_state.h"
#include "model/layers/decoder_parts.h"
#include "model/model_spec.h"

namespace kvcal {

struct IndexerDims {
  int64_t n_picked = 0;  // keys that a query attends to
  int64_t n_heads = 0, head_dim = 0;
  std::vector<bool> has_own;  // per layer: picks for itself; else takes what the layer before had
  bool interleaved = false;   // RoPE of its queries and keys turns pairs that lie side by side

  /// The layer whose choice this one takes: itself where it has an indexer of its own, as layers beyond the last have.
  int picker_of(int layer) const;
};

/// What a class has where its config is silent; no heads: it has no indexer.
struct IndexerDefaults {
  int64_t n_heads = 0;
  bool interleaved = false;
};

/// index_topk, index_n_heads, index_head_dim, indexer_rope_interleave; by layer indexer_types, else index_topk_pattern,
/// else index_topk_freq and index_skip_topk_offset. nullopt where the config has no index_topk and the class no heads.
std::optional<IndexerDims> read_indexer(const Json& text, int64_t n_layers, int64_t rope,
                                        const IndexerDefaults& defaults);

/// What pick_keys() compares: [tokens, heads, dim], [tokens, heads] or absent, [tokens, 1, dim].
struct IndexRows {
  Tensor queries, weights, keys;
};

/// Whether a sequence of the batch has more tokens than can all be picked.
bool needs_choice(const PickSpec& spec, const Batch& batch);

/// The choice for a batch that needs one; for later layers, too, where the states say so.
KeyChoice choose_keys(Ops& op, const IndexRows& rows, const PickSpec& spec, const Batch& batch, LayerStates& states,
                      KvTap& tap);

class Indexer {
 public:
  /// `w` is positioned at the attention module, `rope` is that of the module's queries.
  Indexer(const IndexerDims& dims, int64_t hidden, int64_t q_rank, const RopeSpec& rope, WeightLoader& loader,
          WeightBinder w);

  /// h [tokens, hidden] and latent [tokens, q_rank] are what the layer makes keys and queries of.
  KeyChoice choose(Ops& op, const Tensor& h, const Tensor& latent, const Batch& batch, LayerStates& states,
                   KvTap& tap) const;

 private:
  PickSpec spec_;
  int64_t n_heads_, head_dim_;
  RopeSpec rope_;
  Linear q_, k_, weights_;  // [heads·dim, q_rank], [dim, hidden], [heads, hidden]
  Norm k_norm_;
};

}  // namespace kvcal
