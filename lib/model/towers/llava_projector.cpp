#include "model/towers/llava_projector.h"

#include "model/config_reading.h"

namespace kvcal {

LlavaProjector read_llava_projector(const Json& config, int64_t in, Bias bias, const ModelSpec& model) {
  LlavaProjector p{in, model.hidden};
  p.act = read_activation(config, "projector_hidden_act", p.act);
  const bool present = get_bool_or(config, "multimodal_projector_bias", bias == Bias::Present);
  p.bias = present ? Bias::Present : Bias::None;
  return p;
}

void expect_strategy(const Json& config, std::string_view fallback, std::string_view wanted) {
  const std::string given = get_string_or(config, "vision_feature_select_strategy", fallback);
  if (given != wanted) fail("vision_feature_select_strategy is " + quoted(given) + ", expected " + std::string(wanted));
}

GluWeights load_llava_projector(const LlavaProjector& p, WeightLoader& loader, WeightBinder& w) {
  return loader.load_mlp(projection(w, "linear_1", p.out, p.in, p.bias),
                         projection(w, "linear_2", p.out, p.out, p.bias), p.act);
}

}  // namespace kvcal
