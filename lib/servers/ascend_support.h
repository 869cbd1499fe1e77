// The caches of vLLM-Ascend that take scales from a checkpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kvcal {

/// ModelSlim's file about every tensor of a checkpoint, and its words for both kinds of cache.
constexpr const char* kModelSlimFile = "quant_model_description.json";
constexpr size_t kMostModelSlimBytes = size_t{64} << 20;
constexpr const char* kModelSlimInt8 = "C8";
constexpr const char* kModelSlimMxfp8 = "QK_MXFP8_DYNAMIC_V_MXFP8_PER_CHANNEL";

/// Versions that load the scales of a class of models; "" for none, and why.
struct AscendSupport {
  std::string_view versions, why_not;
};

enum class AscendCache : uint8_t {
  Int8,  // C8: a scale for each channel of keys and values
  Mxfp8  // C8-MXFP: a power of two for each channel of values; those of keys are computed while serving
};

/// Of any class that the program calibrates; throws Error for others.
AscendSupport ascend_support(std::string_view architecture, AscendCache cache);

}  // namespace kvcal
