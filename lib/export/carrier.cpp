#include "export/carrier.h"

#include "checkpoint/config_file.h"
#include "checkpoint/quantization.h"

namespace kvcal {
namespace {

/// Where servers look: at the top, then in the language model's part.
void find_config(const Json& config, Carrier& carrier) {
  const std::vector<std::vector<std::string>> places = {{"quantization_config"},
                                                        {"compression_config"},
                                                        {"text_config", "quantization_config"},
                                                        {"llm_config", "quantization_config"},
                                                        {"language_config", "quantization_config"}};
  for (const std::vector<std::string>& path : places) {
    const Json* at = &config;
    for (const std::string& key : path) at = at && at->is_object() ? find_member(*at, key) : nullptr;
    if (!at || !at->is_object()) continue;
    carrier.config = *at;
    carrier.path = path;
    return;
  }
}

KvCarrier kind_of(const std::string& method) {
  if (method == "compressed-tensors") return KvCarrier::CompressedTensors;
  if (method == "fp8") return KvCarrier::Fp8;
  if (method == "modelopt" || method.starts_with("modelopt_")) return KvCarrier::ModelOpt;
  if (method == "quark") return KvCarrier::Quark;
  return method == "none" ? KvCarrier::None : KvCarrier::Other;
}

std::string dtype_of(const Json& config) {
  for (const char* key : {"dtype", "torch_dtype"})
    if (const Json* value = find_member(config, key); value && value->is_string()) return value->get<std::string>();
  const Json* text = find_member(config, "text_config");
  return text && text->is_object() ? dtype_of(*text) : "";
}

}  // namespace

Carrier carrier_of(const Json& config, const std::filesystem::path& folder) {
  Carrier carrier;
  find_config(config, carrier);
  const QuantizationSummary summary = describe_quantization(config, folder);
  carrier.weights_quantized = summary.weights_quantized;
  carrier.method = summary.method;
  const Json* said = carrier.config.is_object() ? find_member(carrier.config, "quant_method") : nullptr;
  if (said && said->is_string()) carrier.method = said->get<std::string>();
  carrier.kind = kind_of(carrier.method);
  carrier.half_precision = dtype_of(config) == "float16";
  return carrier;
}

}  // namespace kvcal
