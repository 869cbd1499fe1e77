#include "model/hybrid_layers.h"

#include "model/gated_attention.h"
#include "model/rope.h"

namespace kvcal {

void add_hybrid_layers(ModelSpec& spec, const Json& config, const HybridDims& h) {
  const auto types = read_layer_types(config, h.dims.n_layers, {"full_attention", "linear_attention"});
  const int64_t interval = read_size(config, "full_attention_interval", 4);
  const int64_t norms = 2 * h.dims.hidden;
  for (int64_t i = 0; i < h.dims.n_layers; ++i) {
    const bool full = types ? (*types)[static_cast<size_t>(i)] == "full_attention" : (i + 1) % interval == 0;
    if (full) {
      add_attention_layer(spec, h.dims, h.rope, 0, GatedAttention::parameters(h.dims, h.bias, h.output_gate) + norms);
      spec.layers.back().attention.norm = HeadNorm::OnePlusGain;
      spec.layers.back().attention.gated = h.output_gate;
      continue;
    }
    LayerSpec layer;
    layer.index = static_cast<int>(i);
    layer.kind = LayerKind::GatedDeltaNet;
    layer.parameters = GatedDeltaNet::parameters(h.delta) + norms;
    // As an attention layer, with the convolution's input, output and parts, normed keys, the delta rule and its gate.
    layer.activations = 7 * h.dims.hidden + 3 * h.dims.ffn + 3 * h.delta.channels() + 2 * h.delta.keys() +
                        3 * h.delta.values() + 8 * h.delta.n_value_heads;
    layer.state_bytes = GatedDeltaNet::state_bytes(h.delta);
    spec.layers.push_back(layer);
  }
  spec.n_position_axes = rope_position_axes(h.rope);
}

}  // namespace kvcal
