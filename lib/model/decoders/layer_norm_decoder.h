// Decoders with layer norms: what Phi, StableLM, Nemotron, OLMo, StarCoder 2, GPT-2, GPT-NeoX, OPT, Falcon and Jais 2
// have in common.
#pragma once

#include <optional>
#include <utility>

#include "model/decoders/plain_decoder.h"
#include "model/rope.h"

namespace kvcal {

struct NormedWeights {
  Norm attn_norm;                          // [hidden]
  std::optional<Norm> ffn_norm;            // [hidden]; of parallel branches absent where one norm serves both
  LinearGroup qkv;                         // [n_heads·D, hidden], [n_kv_heads·D, hidden] x2
  Linear wo;                               // [hidden, n_heads·D]
  GluWeights mlp;                          // gated or not
  std::optional<Norm> q_norm{}, k_norm{};  // of every head, before RoPE
  float clip = 0;                          // q, k and v are clamped to ± this before RoPE; 0 = they are not
};

/// Branches in turn: h = x + Attn(norm1 x), out = h + FeedForward(norm2 h); side by side:
/// out = x + (Attn(norm1 x) + FeedForward(norm2 x)).
std::unique_ptr<Block> make_normed_block(const KvLayout& layout, const RopeSpec& rope, NormedWeights weights,
                                         bool side_by_side = false);

/// Ends with a layer norm that has a bias; spec.final_norm is its weight.
class LayerNormModel : public AttentionModel {
 public:
  std::unique_ptr<Head> load_head(WeightLoader& loader, WeightBinder& weights, WeightBinder& head) const override;

 protected:
  LayerNormModel(const Json& config, const DecoderDims& dims);

  /// NAME.weight and NAME.bias [hidden], of any norm of the model.
  virtual Norm load_norm(WeightLoader& loader, WeightBinder& w, const std::string& name) const;

  /// Adds a layer whose attention is called `module`.
  KvLayout& add_layer(const RopeSpec& rope, const std::string& module);
};

/// Llama's layers with layer norms and a squared ReLU between two projections, which attention_bias and mlp_bias may
/// give biases.
class SquaredReluDecoder : public LayerNormModel {
 public:
  /// `bias`: where the config is silent.
  SquaredReluDecoder(const Json& config, const DecoderDefaults& defaults, const RopeDefaults& rope, Bias bias);

 private:
  std::unique_ptr<Block> load_layer(const KvLayout& cache, WeightLoader& loader, WeightBinder w) const override;

  RopeSpec rope_;
  Bias attention_bias_, mlp_bias_;
};

/// q, k and v that are one weight "NAME" in groups: of each key head the rows of its queries, of the key, of the value.
LinearGroup load_grouped_qkv(WeightLoader& loader, WeightBinder& w, const std::string& name, const DecoderDims& dims,
                             Bias bias);

}  // namespace kvcal
