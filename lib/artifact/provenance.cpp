#include "artifact/provenance.h"

namespace kvcal {
namespace {

/// A digest that is none would make the file lie about what it belongs to.
void check_digest(const char* name, const std::string& text) {
  if (text.size() != 64 || text.find_first_not_of("0123456789abcdef") != std::string::npos)
    fail(std::string(name) + " is " + quoted(text) + ", expected 64 lower-case hexadecimal digits");
}

}  // namespace

Json model_block(const ModelSpec& spec, const ModelFacts& facts) {
  check_digest("config_sha256", facts.config_sha256);
  check_digest("weights_fingerprint", facts.weights_fingerprint);
  Json block = {{"architecture", spec.architecture},    {"model_type", spec.model_type},
                {"n_layers", spec.layers.size()},       {"n_kv_layers", spec.caches.size()},
                {"max_positions", spec.max_positions},  {"tensor_prefix", facts.tensor_prefix},
                {"config_sha256", facts.config_sha256}, {"weights_fingerprint", facts.weights_fingerprint},
                {"also_valid_for", Json::array()}};
  if (spec.rope_switch > 0)
    block["longrope"] = {{"original_positions", spec.rope_switch}, {"list", spec.above_rope_switch ? "long" : "short"}};
  return block;
}

Json layers_without_kv_block(const ModelSpec& spec) {
  Json out = Json::array();
  for (const LayerSpec& layer : spec.layers) {
    if (layer.cache >= 0) continue;
    out.push_back({{"index", layer.index}, {"kind", name_of(layer.kind)}});
    if (layer.shares_cache >= 0)
      out.back()["shares_kv_with"] = spec.caches[static_cast<size_t>(layer.shares_cache)].layer;
  }
  return out;
}

Json calibration_block(const CalibrationFacts& facts) {
  check_digest("prompts_sha256", facts.prompts_sha256);
  check_digest("plan_sha256", facts.plan_sha256);
  Json block = {{"prompts_sha256", facts.prompts_sha256},
                {"plan_sha256", facts.plan_sha256},
                {"n_prompts", facts.n_prompts},
                {"n_tokens", facts.n_tokens},
                {"longest", facts.longest},
                {"max_length", facts.max_length},
                {"passes", facts.passes},
                {"precision", facts.precision},
                {"isa", facts.isa},
                {"tool_version", facts.tool_version}};
  if (!facts.activation_quant.empty()) block["activation_quant"] = facts.activation_quant;
  if (facts.encoder_tokens) block["encoder_tokens"] = *facts.encoder_tokens;
  return block;
}

}  // namespace kvcal
