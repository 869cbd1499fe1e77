// Pieces that several families share as they are: embedding, head, SwiGLU feed-forward, and the plain pre-norm decoder
// layer of Llama, Mistral and Qwen2.
#pragma once

#include <memory>

#include "checkpoint/weight_binder.h"
#include "model/block.h"
#include "model/config_reading.h"

namespace kvcal {

/// spec.embedding [vocab, hidden], read row by row from the checkpoint; rows are multiplied by the factor.
std::unique_ptr<Embedding> load_token_embedding(const ModelSpec& spec, WeightBinder& weights, float factor = 1);

/// A norm over the last dimension: of the root mean square, or layer norm.
struct Norm {
  enum class Kind : uint8_t { Rms, Layer };
  Kind kind = Kind::Rms;
  float eps = 0;
  Owned gain, bias;  // bias: of layer norm, or absent

  Tensor forward(Ops& op, const Tensor& x) const {
    return kind == Kind::Rms ? op.rms_norm(x, gain, eps) : op.layer_norm(x, gain, bias, eps);
  }
};

/// What becomes of the logits: times the factor, then c tanh(logits / c) unless the cap is 0.
struct LogitsEnd {
  float factor = 1, cap = 0;
};

/// spec.final_norm and the head: the embedding when tied, else "lm_head.weight" from `head`.
std::unique_ptr<Head> load_output_head(const ModelSpec& spec, Gain gain, float eps, Ops& op, WeightBinder& weights,
                                       WeightBinder& head, const LogitsEnd& end = {});
std::unique_ptr<Head> load_output_head(const ModelSpec& spec, Norm norm, const LogitsEnd& end, Ops& op,
                                       WeightBinder& weights, WeightBinder& head);

/// "NAME.weight" [out, in], with "NAME.bias" [out] when the config says the layer has one.
enum class Bias : uint8_t { None, Present };
HostLinear projection(WeightBinder& w, const std::string& name, int64_t out, int64_t in, Bias bias = Bias::None);
Linear load_projection(Ops& op, WeightBinder& w, const std::string& name, int64_t out, int64_t in,
                       Bias bias = Bias::None);

/// "self_attn.q_proj", ".k_proj", ".v_proj" of a layer: [n_heads·D, hidden], [n_kv_heads·D, hidden] x2.
LinearGroup load_qkv(Ops& op, WeightBinder& w, const DecoderDims& dims, Bias bias);

/// gate_proj, up_proj, down_proj of the binder's module.
struct GluMlp {
  GluWeights w;

  GluMlp(Ops& op, WeightBinder weights, int64_t hidden, int64_t ffn, Bias bias = Bias::None,
         Activation act = Activation::Silu);
  Tensor forward(Ops& op, const Tensor& x) const;  // [tokens, hidden] -> [tokens, hidden]
};

/// Which projections of a plain decoder layer carry biases.
struct DecoderBiases {
  Bias qkv = Bias::None, o = Bias::None, mlp = Bias::None;
};

/// h = x + Attn(norm1 x), out = h + MLP(norm2 h): plain-gain RMSNorm, grouped-query attention with RoPE over the first
/// rotary dimensions, SwiGLU.
class PlainDecoderBlock final : public Block {
 public:
  PlainDecoderBlock(const DecoderDims& dims, const KvLayout& layout, const RopeSpec& rope, const DecoderBiases& biases,
                    Ops& op, WeightBinder w);
  Tensor forward(Ops& op, const Tensor& x, const Batch& batch, LayerStates& states, KvTap& tap, Tail tail) override;

 private:
  const KvLayout& layout_;
  const RopeSpec& rope_;
  float eps_;
  Owned attn_norm_, ffn_norm_;  // [hidden]
  LinearGroup qkv_;
  Linear wo_;  // [hidden, n_heads·D]
  GluMlp mlp_;
};

/// Parameters of such a layer: for inspection and the memory plan.
int64_t plain_decoder_parameters(const DecoderDims& dims, const DecoderBiases& biases);

}  // namespace kvcal
