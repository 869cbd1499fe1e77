#include "model/decoders/hybrid_layers.h"

#include "model/layers/gated_attention.h"
#include "model/rope.h"

namespace kvcal {
namespace {

void add_gated_attention(ModelSpec& spec, const HybridDims& h) {
  add_attention_layer(spec, h.dims, h.rope, 0);
  spec.layers.back().attention.norm = HeadNorm::OnePlusGain;
  spec.layers.back().attention.gated = h.output_gate;
}

}  // namespace

void add_hybrid_layers(ModelSpec& spec, const Json& config, const HybridDims& h) {
  const auto types = read_layer_types(config, h.dims.n_layers, {"full_attention", "linear_attention"});
  const int64_t interval = read_size(config, "full_attention_interval", 4);
  for (int64_t i = 0; i < h.dims.n_layers; ++i) {
    const bool full = types ? (*types)[static_cast<size_t>(i)] == "full_attention" : (i + 1) % interval == 0;
    if (full) {
      add_gated_attention(spec, h);
      continue;
    }
    add_recurrent_layer(spec, LayerKind::GatedDeltaNet, GatedDeltaNet::size(h.delta), 0);
    spec.layers.back().activations += 3 * h.dims.ffn;
  }
  spec.n_position_axes = rope_position_axes(h.rope);
}

DecoderBlockParts load_hybrid_norms(const DecoderDims& d, WeightLoader& loader, WeightBinder& w) {
  const RmsNorms norm{loader, w, d.hidden, d.eps, Gain::OnePlus};
  return {.before_mixer = norm("input_layernorm"), .before_ffn = norm("post_attention_layernorm")};
}

MtpNames read_hybrid_mtp(const Json& config) {
  const bool own_table = get_bool_or(config, "mtp_use_dedicated_embeddings", false);
  if (own_table || get_int_or(config, "mtp_num_hidden_layers", 1) != 1) return {};
  return {"mtp.", "layers.0.", "fc", "pre_fc_norm_embedding", "pre_fc_norm_hidden"};
}

void add_hybrid_mtp_layer(ModelSpec& spec, const MtpNames& names, const HybridDims& h) {
  add_gated_attention(spec, h);
  finish_mtp_layer(spec, names);
}

}  // namespace kvcal
