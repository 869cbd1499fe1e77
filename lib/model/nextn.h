// MTP layers under the number that follows the last layer's, "layers.46." behind 46 layers, as DeepSeek-V3 and GLM-4.5
// to 4.7 publish them. Servers read no token's embedding at position 0.
#pragma once

#include "base/json.h"
#include "model/mtp.h"

namespace kvcal {

/// By num_nextn_predict_layers; begin is "" where that is not 1.
MtpNames read_nextn(const Json& text, int64_t n_layers);

/// As load_mtp_input, with plain gains. The embedding is the model's own; the layer's copy of it is not read.
MtpInput load_nextn_input(const ModelSpec& spec, const MtpNames& names, float eps, WeightLoader& loader,
                          WeightBinder& text, WeightBinder& w);

/// Parameters of that input, and elements that it allocates per token.
void count_nextn_input(LayerSpec& layer, int64_t hidden);

}  // namespace kvcal
