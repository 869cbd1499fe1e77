#include "prefill/model_weights.h"

namespace kvcal {

ModelWeights locate_weights(const Checkpoint& checkpoint, const ModelSpec& spec) {
  constexpr std::string_view kHead = "lm_head.weight";
  const TextPrefix prefix = detect_prefix(checkpoint, spec.embedding);
  const WeightBinder all(checkpoint);
  const std::string head =
      prefix.lm_head.ends_with(kHead) ? prefix.lm_head.substr(0, prefix.lm_head.size() - kHead.size()) : std::string();
  if (spec.tied_head && !prefix.lm_head.empty())
    for (const std::string& name : checkpoint.names_below(prefix.head_module())) all.claim(name);
  return {all.at(prefix.model), all.at(head), prefix,
          SkipRules(prefix.model + "layers.", static_cast<int64_t>(spec.layers.size()))};
}

}  // namespace kvcal
