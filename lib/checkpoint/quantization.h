// How a checkpoint says its weights and its KV cache are quantized, for inspect and for messages.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/json.h"
#include "checkpoint/safetensors.h"

namespace kvcal {

class Checkpoint;

struct QuantizationSummary {
  bool weights_quantized = false;
  std::string method;    // "none", "fp8", "compressed-tensors", "modelopt", "awq", ...; "unknown" when it is not said
  std::string detail;    // what distinguishes it within the method: "128x128 blocks", "NVFP4", "4 bits, groups of 128"
  std::string kv_cache;  // what it says about the KV cache, "" when nothing: "FP8", "float 8 bits, per tensor", ...
  std::string unread;    // the name of what of it is not read: "bitsandbytes", "AWQ gemv"; "" when tensors decide
  std::string source;    // where it stands: "config.json", "config.json text_config", "hf_quant_config.json", ...
};

/// Reads quantization_config (or compression_config, quantization) at the top level or in text_config, llm_config,
/// language_config, thinker_config, then hf_quant_config.json, quantize_config.json and quant_config.json in `folder`.
/// What it does not understand it calls by the name it finds; only broken JSON is an Error.
QuantizationSummary describe_quantization(const Json& config, const std::filesystem::path& folder);

/// The object itself: the one of config.json that says something about weights, else that of a file beside it; null
/// when there is none. A member `quantization` that holds everything is stepped into.
Json find_quantization(const Json& config, const std::filesystem::path& folder);

/// "fp8 (128x128 blocks), KV cache FP8; says config.json", or "none".
std::string str(const QuantizationSummary& summary);

/// Whether weights of this method are read (checkpoint/formats/); true also where nothing is said, since the tensors
/// decide. Single tensors may still be refused: 3 bits, sparse ones.
bool is_readable(const QuantizationSummary& summary);

/// The tensor that stands for a weight "x.weight" in a checkpoint:
/// that one, or in its place "x.qweight", "x.weight_packed" and the like;
/// "" when there is none.
std::string stored_name(const Checkpoint& checkpoint, std::string_view weight);

/// Whether the stored values are the weights themselves: BF16, F16 or F32.
bool is_plain(const TensorInfo& info);

}  // namespace kvcal
