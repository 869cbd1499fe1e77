// Weights as ops take them, and what turns a checkpoint's tensors into them. A model's load_* functions see no more of
// a device than this; what checks a checkpoint is a loader that keeps nothing (prefill/model_weights.cpp).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ops/weight_reader.h"
#include "tensor/input_rounding.h"
#include "tensor/tensor.h"

namespace kvcal {

/// BF16: what a server computes. F32: the reference for goldens (weights widened, activations float).
enum class Precision : uint8_t { BF16, F32 };

/// Persistent device memory with its view; copies share it.
struct Owned {
  Tensor view;
  std::shared_ptr<void> memory;
  operator const Tensor&() const { return view; }
  explicit operator bool() const { return static_cast<bool>(view); }
};

/// Norms of an output projection's columns, [n_heads, D or rank] (ops/column_norms.h).
struct ColumnNorms {
  Owned values;                                       // F32, where the ops run
  std::shared_ptr<const std::vector<float>> on_host;  // filled when the weights have been read
  bool reaches_stream = true;  // what is projected is added to the residual stream, but for a constant factor of the
                               // model; else it is gated or normed on the way

  /// D or rank; 0 when there are none.
  int64_t width(int64_t n_heads) const { return on_host ? static_cast<int64_t>(on_host->size()) / n_heads : 0; }
};

/// y = x Wᵀ + b, with W [out, in] in whatever packing the backend likes. Every op that takes one rounds x as `input`
/// says before it multiplies; layers that share an input in one op share its rounding.
struct Linear {
  int64_t in = 0, out = 0;
  std::shared_ptr<const void> packed;  // the backend's own form of W
  Owned bias;                          // [out], F32 or what is as exact; or absent
  InputRounding input{};
  std::shared_ptr<const ColumnNorms> column_norms{};  // of an attention's output projection; else absent
  bool f32_result = false;                            // for linear_f32() only; else for every other op
  explicit operator bool() const { return packed != nullptr; }
};

/// A weight [out, in], in host memory or only stored, and its bias [out], or none, in host memory.
struct HostLinear {
  Tensor weight, bias;
  InputRounding input{};
  HostLinear rows(int64_t first, int64_t n) const {
    return {weight.rows(first, n), bias ? bias.rows(first, n) : Tensor{}, input};
  }
};

/// Projections of one input: y_i = x W_iᵀ + b_i.
struct LinearGroup {
  std::vector<Linear> parts;
  Linear all;  // the parts' rows one after the other, where the backend keeps them as one weight; else absent
};

/// What a feed-forward does to its gate, or to its only projection.
///   Silu      x σ(x)
///   Gelu      x Φ(x), with the exact error function
///   GeluTanh  0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³)))
///   Relu      max(x, 0)
///   Relu2     max(x, 0)²
///   Clamped   in glu() only: g = min(gate, 7), u = clamp(up, -7, 7): g σ(1.702 g) (u + 1) (gpt-oss)
///   Capped    in glu() only: min(round(gate σ(gate)), 7) clamp(up, -7, 7) (Step-3.5)
enum class Activation : uint8_t { Silu, Gelu, GeluTanh, Relu, Relu2, Clamped, Capped };

constexpr bool needs_gate(Activation act) { return act == Activation::Clamped || act == Activation::Capped; }

/// Gated feed-forward: down( glu(gate x, up x) ); without a gate the plain one: down( act(up x) ).
struct GluWeights {
  Linear gate, up, down;  // [ffn, dim] or absent, [ffn, dim], [dim, ffn]
  Linear gate_up{};       // [2 ffn, dim]: both, where the backend keeps them as one weight; else absent
  Activation act = Activation::Silu;
};

/// How a stored norm gain w is used: Plain w, or OnePlus w (Gemma, Qwen3-Next, Qwen3.5).
enum class Gain : uint8_t { Plain, OnePlus };

/// Takes host tensors in F32, BF16, F16 or F64, which are read during the call only, or as reader() says, and where
/// there is a reader weights that are only stored (tensor/encoded_weight.h). Public methods check shapes and types and
/// throw Error; protected virtuals do the work.
class WeightLoader {
 public:
  explicit WeightLoader(Precision precision) : precision_(precision) {}
  virtual ~WeightLoader() = default;
  WeightLoader(const WeightLoader&) = delete;
  WeightLoader& operator=(const WeightLoader&) = delete;

  Precision precision() const { return precision_; }
  DType activation_dtype() const { return precision_ == Precision::BF16 ? DType::BF16 : DType::F32; }

  /// What reads weights in the background; null: the backend cannot.
  virtual WeightReader* reader() { return nullptr; }

  /// W [out, in], optional bias [out]. In BF16 W is rounded to bf16; in F32 it is widened.
  Linear load_linear(const Tensor& weight, const Tensor& bias = {}, const InputRounding& input = {});

  /// W for linear_f32(): a BF16 weight stays so in BF16, of any other it is F32.
  Linear load_linear_f32(const Tensor& weight, const Tensor& bias = {}, const InputRounding& input = {});

  /// Weights that multiply the same x, rounded as all of them want it; of static scales the largest.
  LinearGroup load_linears(std::span<const HostLinear> weights);

  GluWeights load_glu(const HostLinear& gate, const HostLinear& up, const HostLinear& down,
                      Activation act = Activation::Silu);

  /// The same without a gate.
  GluWeights load_mlp(const HostLinear& up, const HostLinear& down, Activation act);

  /// A norm's gain [n] as rms_norm wants it. OnePlus: 1 + w in F32. Plain: BF16 in Precision::BF16, else F32.
  Owned load_gain(const Tensor& weight, Gain kind);

  /// What column_norms() of these host tensors gives.
  std::shared_ptr<const ColumnNorms> load_column_norms(const Tensor& weight, const Tensor& expansion, int64_t n_heads);

  /// Any small weight, widened to F32 (conv kernels, A_log, dt_bias, gated-norm gains).
  Owned load_f32(const Tensor& weight);

 protected:
  virtual Linear do_load_linear(const Tensor& weight, const Tensor& bias) = 0;
  virtual Linear do_load_linear_f32(const Tensor& weight, const Tensor& bias) = 0;
  virtual Owned do_load_vector(const Tensor& weight, DType as, float plus) = 0;
  virtual std::shared_ptr<const ColumnNorms> do_load_column_norms(const Tensor& weight, const Tensor& expansion,
                                                                  int64_t n_heads);

  /// One by one, unless a backend knows better.
  virtual LinearGroup do_load_linears(std::span<const HostLinear> weights);

 private:
  Precision precision_;
};

}  // namespace kvcal
