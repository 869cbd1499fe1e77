#include "calibrate/identity.h"

#include <limits>

#include "base/error.h"
#include "calibrate/opened_model.h"
#include "checkpoint/config_file.h"
#include "checkpoint/fingerprint.h"
#include "checkpoint/quantization_config.h"

namespace kvcal {
namespace {

/// The language model's part, as far as that stands apart.
const Json& text_config(const Json& config) {
  for (const char* key : kNestedConfigs)
    if (const Json* nested = find_member(config, key); nested && nested->is_object()) return *nested;
  return config;
}

std::string first_architecture(const Json& config) {
  const Json* list = find_member(config, "architectures");
  return list && list->is_array() && !list->empty() && (*list)[0].is_string() ? (*list)[0].get<std::string>()
                                                                              : "unknown";
}

TextPrefix prefix_of(const Checkpoint& checkpoint) {
  try {
    return detect_prefix(checkpoint);
  } catch (const Error&) {  // its embedding has another name: then all tensors but those of towers count
    return {};
  }
}

ModelInfo describe_unknown(const Checkpoint& checkpoint) {
  const Json &config = checkpoint.config(), &text = text_config(config);
  const TextPrefix prefix = prefix_of(checkpoint);
  ModelInfo info;
  info.architecture = first_architecture(config);
  info.model_type = get_string_or(config, "model_type", "");
  info.n_layers = get_int_or(text, "num_hidden_layers", 0);
  info.max_positions = get_int_or(text, "max_position_embeddings", 0);
  info.tensor_prefix = prefix.model;
  info.config_sha256 = config_sha256(config);
  const SkipRules rules(prefix.model + "layers.",
                        info.n_layers > 0 ? info.n_layers : std::numeric_limits<int64_t>::max());
  info.weights_fingerprint = weights_fingerprint(checkpoint, language_model_tensors(checkpoint, prefix, rules));
  return info;
}

}  // namespace

ModelInfo identify(const std::filesystem::path& folder) {
  try {
    return describe(OpenedModel(folder));
  } catch (const Error&) {
    return describe_unknown(Checkpoint::open(folder));
  }
}

}  // namespace kvcal
