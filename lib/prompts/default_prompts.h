// The prompts that are fed where none are given, as part of the program.
#pragma once

#include <string_view>

namespace kvcal {

/// datasets/default.jsonl, byte for byte as it was when the program was built: JSON lines.
std::string_view default_prompts();

}  // namespace kvcal
