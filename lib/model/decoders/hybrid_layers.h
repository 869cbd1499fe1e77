// The layer list of Qwen3-Next and Qwen3.5: which layers attend, which are gated delta nets; and their MTP layer.
#pragma once

#include "model/config_reading.h"
#include "model/decoders/mtp.h"
#include "model/layers/decoder_block.h"
#include "model/layers/gated_delta_net.h"

namespace kvcal {

struct HybridDims {
  const DecoderDims& dims;
  const RopeSpec& rope;
  const DeltaNetDims& delta;
  Bias bias;
  bool output_gate;
};

/// Appends the layers by layer_types, else by full_attention_interval (default 4: layers 3, 7, ...).
void add_hybrid_layers(ModelSpec& spec, const Json& config, const HybridDims& dims);

/// Both norms of a layer's block.
DecoderBlockParts load_hybrid_norms(const DecoderDims& dims, WeightLoader& loader, WeightBinder& w);

/// Their MTP layer: attends, and stands beside the language model; begin is "" where the config has not exactly one.
MtpNames read_hybrid_mtp(const Json& config);
void add_hybrid_mtp_layer(ModelSpec& spec, const MtpNames& names, const HybridDims& dims);

}  // namespace kvcal
