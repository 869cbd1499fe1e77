// Pieces that several families share as they are: embedding, head, norms, projections, SwiGLU feed-forward, attention
// over a cache.
#pragma once

#include <functional>
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

/// Whether a layer has a bias, and what a config says of that.
enum class Bias : uint8_t { None, Present };
inline Bias read_bias(const Json& config, const char* key, bool fallback = false) {
  return get_bool_or(config, key, fallback) ? Bias::Present : Bias::None;
}

/// Root-mean-square norms of one width: "NAME.weight" [n].
struct RmsNorms {
  WeightLoader& loader;
  WeightBinder& w;
  int64_t n;
  float eps;
  Gain gain = Gain::Plain;

  Norm operator()(const std::string& name) const {
    return {Norm::Kind::Rms, eps, loader.load_gain(w(name + ".weight", {n}), gain), {}};
  }
};

/// "NAME.weight" and "NAME.bias" [n].
Norm load_layer_norm(WeightLoader& loader, WeightBinder& w, const std::string& name, int64_t n, float eps,
                     Bias bias = Bias::Present);

/// What becomes of the logits: plus the head's bias, times the factor, then c tanh(logits / c) unless the cap is 0.
struct LogitsEnd {
  float factor = 1, cap = 0;
  Bias bias = Bias::None;
};

/// spec.final_norm and the head: the embedding when tied, else spec.head from `head`.
std::unique_ptr<Head> load_output_head(const ModelSpec& spec, Gain gain, float eps, WeightLoader& loader,
                                       WeightBinder& weights, WeightBinder& head, const LogitsEnd& end = {});
std::unique_ptr<Head> load_output_head(const ModelSpec& spec, Norm norm, const LogitsEnd& end, WeightLoader& loader,
                                       WeightBinder& weights, WeightBinder& head);

/// "NAME.weight" [out, in], with "NAME.bias" [out] when the config says the layer has one.
HostLinear projection(WeightBinder& w, const std::string& name, int64_t out, int64_t in, Bias bias = Bias::None);
Linear load_projection(WeightLoader& loader, WeightBinder& w, const std::string& name, int64_t out, int64_t in,
                       Bias bias = Bias::None);

/// An attention's output projection [out, n_heads · D], with the norms of its columns.
struct HeadColumns {
  int64_t n_heads, width;
};
/// What attention puts out is projected and added as it is; normed before it is added; gated before it is projected.
enum class OutputTo : uint8_t { Stream, Norm, Gate };
Linear load_output_projection(WeightLoader& loader, WeightBinder& w, const std::string& name, int64_t out,
                              HeadColumns in, Bias bias = Bias::None, OutputTo to = OutputTo::Stream);

/// Servers keep both as one weight: of two static scales of their common input the larger serves both.
void share_input(Linear& a, Linear& b);

/// "MODULE.q_proj", ".k_proj", ".v_proj" of a layer: [n_heads·D, hidden], [n_kv_heads·D, hidden] x2.
LinearGroup load_qkv(WeightLoader& loader, WeightBinder& w, const DecoderDims& dims, Bias bias,
                     const std::string& module = "self_attn");
/// The same of one weight: rows of queries, of keys, of values.
LinearGroup load_fused_qkv(WeightLoader& loader, WeightBinder& w, const std::string& name, const DecoderDims& dims,
                           Bias bias);

/// gate_proj and up_proj, or both in gate_up_proj, and down_proj of the binder's module.
struct GluShape {
  int64_t hidden, ffn;
  Bias bias = Bias::None;
  Activation act = Activation::Silu;
};
GluWeights load_glu(WeightLoader& loader, WeightBinder& w, const GluShape& shape);

struct GluMlp {
  GluWeights w;

  explicit GluMlp(GluWeights weights) : w(std::move(weights)) {}
  GluMlp(WeightLoader& loader, WeightBinder weights, int64_t hidden, int64_t ffn, Bias bias = Bias::None,
         Activation act = Activation::Silu);
  Tensor forward(Ops& op, const Tensor& x) const;  // [tokens, hidden] -> [tokens, hidden]
};

/// Below the binder's module, without ".weight".
struct FusedGluNames {
  std::string gate_up, down;
};
/// Gate rows, then up rows, in one weight, [2 ffn, hidden], and the other one.
GluWeights load_fused_glu(WeightLoader& loader, WeightBinder& w, const FusedGluNames& names, int64_t hidden,
                          int64_t ffn);

/// The taps, then attention over the layer's cache. q [tokens, n_heads, D], k, v [tokens, n_kv_heads, D] ->
/// [tokens, n_heads·D], which `wo` is for, or an absent tensor with Tail::Skip. Scale and window are the layout's;
/// `more` has what else a family wants: soft-cap, sinks, chunks.
Tensor attend(Ops& op, const KvLayout& layout, std::span<const Tensor> qkv, const Linear& wo, const Batch& batch,
              LayerStates& states, KvTap& tap, Tail tail, AttentionSpec more = {});

/// What attention over a layer's own cache is made of: tapped q, k, v, and its output projection.
struct CachedAttention {
  Tensor q, k, v;
  const Linear& wo;
  const AttentionSpec& spec;
};

/// What the tap makes of rows [first, first + block) of the sequence of spans[i].
using StoredRows = std::function<KvTap::Rows(size_t i, int64_t first)>;

/// Behind attention: the rows of each block that this batch completes become what is stored of them.
void store_blocks(Ops& op, const Batch& batch, std::span<KvRows* const> rows, int64_t block, const StoredRows& stored);

/// The end of attend(): attention, and the tap's look at it.
Tensor attend_cached(Ops& op, const KvLayout& layout, const CachedAttention& a, const Batch& batch, LayerStates& states,
                     KvTap& tap, Tail tail);

}  // namespace kvcal
