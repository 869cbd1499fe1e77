// The INT8 cache of vLLM-Ascend with a scale a channel (C8).
#pragma once

#include <string_view>

namespace kvcal {

/// Versions that load the scales of a class of models; "" for none, and why.
struct AscendSupport {
  std::string_view versions, why_not;
};

/// Of any class that the program calibrates; throws Error for others.
AscendSupport ascend_support(std::string_view architecture);

}  // namespace kvcal
