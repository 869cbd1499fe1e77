// What mixes tokens in a layer: attention, state space, short convolution, ...
#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/layers/sparse_moe.h"

namespace kvcal {

class Mixer {
 public:
  virtual ~Mixer() = default;

  /// h [tokens, hidden] (normed) -> the branch's output [tokens, hidden], without meaning with Tail::Skip. Keys and
  /// values go through the tap, states of the batch's sequences are advanced.
  virtual Tensor forward(Ops& op, const Tensor& h, const Batch& batch, LayerStates& states, KvTap& tap,
                         Tail tail) const = 0;
};

/// What a mixer adds to its LayerSpec.
struct MixerSize {
  int64_t activations = 0;  // elements per token
  int64_t state_bytes = 0, conv_bytes = 0, state_row = 0, state_heads = 0;
};

/// Sets what the layer keeps of a sequence.
void set_state(LayerSpec& layer, const MixerSize& mixer);

/// Appends a layer that owns no cache: a mixer, two norms and a gated feed-forward of width `ffn`.
void add_recurrent_layer(ModelSpec& spec, LayerKind kind, const MixerSize& mixer, int64_t ffn);

/// Fails when the product of a layer's sizes is beyond any real model: what is computed from them cannot overflow then.
void check_product(const char* what, std::initializer_list<int64_t> sizes);

/// The layer words under the first of `keys` that the config has; "mamba" and "attention" are read as
/// "linear_attention" and "full_attention", their newer names. Refuses words that are not in `known`.
std::optional<std::vector<std::string>> read_mixer_words(const Json& config, std::initializer_list<const char*> keys,
                                                         const std::vector<std::string>& known);

/// A multiplier: a finite number that a float can hold.
float read_factor(const Json& config, const char* key, float fallback = 1);

/// Rows [from, from + n) of a projection, where a checkpoint has several in one.
Linear load_rows(WeightLoader& loader, const HostLinear& all, int64_t from, int64_t n);

}  // namespace kvcal
