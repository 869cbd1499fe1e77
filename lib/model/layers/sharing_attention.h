// Attention of Gemma 3n and 4: queries, keys and values normed, a softmax scale of 1, over the rows of the layer itself
// or over those of an earlier one. Norms have plain gains, applied in float32; that of values has none.
#pragma once

#include "model/layers/decoder_parts.h"

namespace kvcal {

struct SharingAttentionShape {
  int64_t hidden, n_heads, n_kv_heads, head_dim;
  float eps;
  Bias bias = Bias::None;
  float cap = 0;                  // of logits; 0 = none
  bool owns = true;               // else the rows are an earlier layer's
  bool shared = false;            // later layers read its rows
  bool keys_as_values = false;    // no projection for values: they are the keys before norm and RoPE
  bool images_seen_whole = true;  // as the batch says; else every token sees earlier ones only
};

class SharingAttention {
 public:
  /// `w` is positioned at the layer. `layout`: of the cache that it owns or reads.
  SharingAttention(const SharingAttentionShape& shape, const KvLayout& layout, const RopeSpec& rope,
                   WeightLoader& loader, WeightBinder& w);

  /// h [tokens, hidden] (normed) -> the branch's output, or h itself after the taps with Tail::Skip.
  Tensor forward(Ops& op, const Tensor& h, const Batch& batch, LayerStates& states, KvTap& tap, Tail tail) const;

 private:
  Tensor read_kept(Ops& op, const Tensor& h, const Batch& batch, LayerStates& states, KvTap& tap, Tail tail) const;
  Tensor attend_shared_in_blocks(Ops& op, const CachedAttention& a, const Batch& batch, LayerStates& states,
                                 KvTap& tap) const;
  Tensor attend_kept_in_blocks(Ops& op, const Tensor& q, std::vector<const KvRows*> kept, const AttentionSpec& spec,
                               const Batch& batch, LayerStates& states, KvTap& tap) const;
  void store(Ops& op, std::span<KvRows* const> rows, const Batch& batch, KvTap& tap) const;
  AttentionSpec spec(const Batch& batch, const KvTap& tap) const;

  struct Projected {
    Tensor q, k, v;  // [tokens, heads, head_dim]
  };
  Projected project(Ops& op, const Tensor& h, const Tensor& turns) const;

  SharingAttentionShape shape_;
  const KvLayout& s_;
  const RopeSpec& rope_;
  LinearGroup qkv_;        // q alone where the rows are another layer's; no v where keys are values
  Linear wo_;              // [hidden, n_heads·D]
  Owned q_norm_, k_norm_;  // [D]
};

/// num_kv_shared_layers: for each layer the one whose rows it reads, itself unless it is one of the last so many, which
/// read those of the last layer of their kind before them.
std::vector<int> read_cache_owners(const Json& text, const std::vector<bool>& full, int64_t default_shared);

/// The last layer of the spec reads the cache of an earlier one instead of the one it was added with.
void share_cache(ModelSpec& spec, int owner);

}  // namespace kvcal
