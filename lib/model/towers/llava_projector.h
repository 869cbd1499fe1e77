// The end of LLaVA's projector, and of those made after it: two layers, from a tower's rows to the language model's.
#pragma once

#include "checkpoint/weight_binder.h"
#include "model/layers/decoder_parts.h"

namespace kvcal {

struct LlavaProjector {
  int64_t in = 0, out = 0;
  Activation act = Activation::Gelu;
  Bias bias = Bias::None;
};

/// By projector_hidden_act and multimodal_projector_bias, which a class has by default or not.
LlavaProjector read_llava_projector(const Json& config, int64_t in, Bias bias, const ModelSpec& model);

/// Throws Error where vision_feature_select_strategy, which a class has by default, is another word.
void expect_strategy(const Json& config, std::string_view fallback, std::string_view wanted);

/// "linear_1" and "linear_2": [rows, in] -> [rows, out].
GluWeights load_llava_projector(const LlavaProjector& projector, WeightLoader& loader, WeightBinder& w);

}  // namespace kvcal
