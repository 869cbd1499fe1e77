// MTP layers that num_nextn_predict_layers counts, as DeepSeek-V3, GLM-4.5 to 4.7, MiMo and ERNIE-4.5 publish them,
// most under the number that follows the last layer's, "layers.46." behind 46 layers. Servers read no token's embedding
// at position 0.
#pragma once

#include "base/json.h"
#include "model/decoders/mtp.h"

namespace kvcal {

/// Names of one under the number behind the last; begin is "" where num_nextn_predict_layers is not 1.
MtpNames read_nextn(const Json& text, int64_t n_layers);

/// Whether num_nextn_predict_layers, if it is given, is 1.
bool has_one_nextn(const Json& text);

/// As load_mtp_input, with plain gains. The embedding is the model's own; the layer's copy of it is not read.
MtpInput load_nextn_input(const ModelSpec& spec, const MtpNames& names, float eps, WeightLoader& loader,
                          WeightBinder& text, WeightBinder& w);

/// As finish_mtp_layer, for that input.
void finish_nextn_layer(ModelSpec& spec, const MtpNames& names);

}  // namespace kvcal
