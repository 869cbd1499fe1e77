// Multi-head latent attention (MLA): all heads share one cached row [normed latent | roped key part], from which their
// keys and values are made (docs/model-notes.md, "Latent attention").
//
// Prefill expands the row that the tap returned into keys [W_UK c | k_pe] and values W_UV c of every head. Decoding in
// a server folds W_UK into the query instead; that absorbed query is what the tap is shown, and what attention compares
// with the row itself where the tap changes it.
#pragma once

#include "model/layers/indexer.h"
#include "model/layers/mixer.h"
#include "model/layers/query_growth.h"
#include "model/rope.h"

namespace kvcal {

struct LatentDims {
  int64_t hidden = 0, n_heads = 0;
  int64_t q_rank = 0;  // of the queries' own latent; 0 = queries are projected directly
  int64_t kv_rank = 0, nope = 0, rope = 0, value = 0;
  float eps = 0;           // of the latents' norms: rms_norm_eps, as servers have it (the reference: always 1e-6)
  Bias bias = Bias::None;  // of the projections to the latents, and of the output
  const char* module = "self_attn";
  const char* output = "o_proj";

  int64_t qk() const { return nope + rope; }
};

/// kv_lora_rank, q_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim, attention_bias; of `defaults` the widths
/// and ranks are read.
LatentDims read_latent_dims(const Json& text, const DecoderDims& dims, const LatentDims& defaults);

class LatentAttention final : public Mixer {
 public:
  /// `w` is positioned at the module. RoPE of no dimension is none. Layout and rope must outlive it.
  LatentAttention(const LatentDims& dims, const KvLayout& layout, const RopeSpec& rope, WeightLoader& loader,
                  WeightBinder w);

  /// From now on queries see keys that are picked: by an indexer of the layer's own, or, where it is null, by that of
  /// an earlier layer.
  void pick_keys(std::unique_ptr<Indexer> own) {
    indexer_ = std::move(own);
    picks_ = true;
  }

  /// From now on queries grow with their position, by more than 0.
  void grow_queries(const QueryGrowth& growth) { growth_ = growth; }

  Tensor forward(Ops& op, const Tensor& h, const Batch& batch, LayerStates& states, KvTap& tap,
                 Tail tail) const override;

 private:
  struct Projected {
    Tensor query_latent;  // [tokens, q_rank]
    Tensor q_nope, q_pe;  // [tokens, n_heads, nope], [tokens, n_heads, rope]
    Tensor row;           // [tokens, 1, kv_rank + rope]: what is cached
  };
  Projected project(Ops& op, const Tensor& h, const Batch& batch) const;
  Tensor latent_of_queries(Ops& op, const Tensor& h) const;
  KvTap::Rows expand(Ops& op, const Tensor& row, bool absorbed) const;
  Tensor rotated(Ops& op, const Tensor& x, const Tensor& turns) const;
  Tensor grown_query(Ops& op, const Tensor& x, const Batch& batch) const;

  LatentDims dims_;
  const KvLayout& layout_;
  const RopeSpec& rope_;
  QueryGrowth growth_;
  std::unique_ptr<Indexer> indexer_;
  bool picks_ = false;
  Linear q_a_, q_b_;  // [q_rank, hidden], [n_heads·qk, q_rank]; q_b_ alone: [n_heads·qk, hidden]
  Linear kv_a_;       // [kv_rank + rope, hidden]
  Owned q_norm_, kv_norm_;
  Linear k_b_, v_b_;                // [n_heads·nope, kv_rank], [n_heads·value, kv_rank]
  std::vector<Linear> absorbed_k_;  // of every head: [kv_rank, nope]
  Linear wo_;                       // [hidden, n_heads·value]
};

/// Adds a layer whose attention is this one, with a dense SwiGLU of `ffn` and two norms beside it. -> its layout.
KvLayout& add_latent_layer(ModelSpec& spec, const LatentDims& dims, const LatentRope& rope, int64_t ffn);

}  // namespace kvcal
