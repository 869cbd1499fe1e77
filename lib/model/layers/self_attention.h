// Grouped-query attention with what families vary beside its sizes: names, biases, norms of queries and keys, sinks.
#pragma once

#include "model/key_choice.h"
#include "model/layers/mixer.h"
#include "model/layers/query_growth.h"

namespace kvcal {

/// RMSNorm of queries and keys: over each head or over all heads of a token together before RoPE, or over
/// each head after it.
enum class QkNorm : uint8_t { None, PerHead, WholeRow, PerHeadAfterRope };

struct AttentionForm {
  Bias qkv = Bias::None, o = Bias::None;
  QkNorm norm = QkNorm::None;
  const char* q_norm = "q_norm";
  const char* k_norm = "k_norm";
  Gain gain = Gain::Plain;  // of these norms
  bool sinks = false;       // "sinks" [n_heads]
  float clip = 0;  // q, k and v are clamped to ± this before RoPE; 0 = they are not. With norms of whole rows only
  const char* module = "self_attn";
  const char* fused = nullptr;  // one weight, rows of queries, of keys, of values; null: three
  const char* output = "o_proj";
  OutputTo to = OutputTo::Stream;
  float key_factor = 1;  // of k, before RoPE
  float cap = 0;         // soft cap on attention logits; 0 = none
};

class SelfAttention final : public Mixer {
 public:
  /// `w` is positioned at the layer; reads the form's module. A rope of no dimensions is none.
  SelfAttention(const DecoderDims& dims, const KvLayout& layout, const RopeSpec& rope, const AttentionForm& form,
                WeightLoader& loader, WeightBinder& w);

  /// From now on queries see what the picker chooses; null: everything.
  void pick_keys(std::unique_ptr<KeyPicker> picker) { picker_ = std::move(picker); }

  /// From now on queries grow with their position.
  void grow_queries(const QueryGrowth& growth) { growth_ = growth; }

  Tensor forward(Ops& op, const Tensor& h, const Batch& batch, LayerStates& states, KvTap& tap,
                 Tail tail) const override;

 private:
  std::vector<Tensor> project(Ops& op, const Tensor& h, const Batch& batch) const;
  std::vector<Tensor> project_rows(Ops& op, const Tensor& h, const Tensor& turns) const;

  const KvLayout& layout_;
  const RopeSpec& rope_;
  float eps_;
  QkNorm norm_;
  float clip_, key_factor_, cap_;
  LinearGroup qkv_;        // [N·D, hidden], [Nkv·D, hidden] x2
  Linear wo_;              // [hidden, N·D]
  Owned q_norm_, k_norm_;  // [D], or [N·D] and [Nkv·D], or absent
  Owned sinks_;            // F32 [N], or absent
  std::unique_ptr<KeyPicker> picker_;
  QueryGrowth growth_;
};

/// What the form says of a layer's tensors.
void name_tensors(AttentionTensors& tensors, const AttentionForm& form);

}  // namespace kvcal
