// How a checkpoint's quantization config can carry KV-cache scales, and where that config is.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "servers/server_support.h"

namespace kvcal {

struct Carrier {
  KvCarrier kind = KvCarrier::None;
  std::string method;              // "fp8", "awq", "none", ...
  bool weights_quantized = false;  // false: the config, if any, is about the KV cache alone
  Json config = nullptr;           // the object of config.json; null when there is none
  std::vector<std::string> path;   // that leads to it: "text_config", "quantization_config"
  bool half_precision = false;     // the model's dtype is float16
};

/// Of the checkpoint's config.json and the files beside it. Throws Error for JSON that is broken.
Carrier carrier_of(const Json& config, const std::filesystem::path& folder);

}  // namespace kvcal
