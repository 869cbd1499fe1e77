// Engines that Python starts: LLM(model="X", kv_cache_dtype="fp8"), sgl.Engine(model_path="X").
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "doctor/serve_command.h"

namespace kvcal {

/// Where the first such call begins; npos: nowhere.
size_t find_python_call(std::string_view text);

/// Its arguments as the options of the server that takes the same; those that are no literals are left out. Nothing
/// where no argument names a model.
std::optional<ServeCommand> read_python_call(std::string_view text, size_t at);

}  // namespace kvcal
