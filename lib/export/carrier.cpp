#include "export/carrier.h"

#include "checkpoint/config_file.h"
#include "checkpoint/quantization.h"
#include "checkpoint/quantization_config.h"

namespace kvcal {
namespace {

/// Where servers look: at the top, then in the language model's part.
void find_config(const Json& config, Carrier& carrier) {
  for (const QuantizationConfig& found : quantization_configs(config)) {
    const bool older = found.path.size() == 1 && found.path.back() == "compression_config";
    if (found.path.size() > 2 || !(older || found.path.back() == "quantization_config")) continue;
    carrier.config = *found.object;
    carrier.path = found.path;
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
