// Which formats of a cache a plan is for: the server that was named, and what it takes.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "capacity/fit.h"

namespace kvcal {

/// "vllm@0.33.0", "sglang"; nothing for "". Throws Error for another server: of others it is not known what they take.
std::optional<NamedEngine> planned_server(const std::string& text);

/// A line for each format that not all servers that were asked take.
void print_formats(const Capacity& capacity);
Json formats_json(const Capacity& capacity);

}  // namespace kvcal
