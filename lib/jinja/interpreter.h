// Runs the tree of a template.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "jinja/ast.h"
#include "jinja/runtime.h"

namespace kvcal::jinja {

/// Renders `body` with `variables` in scope. Throws Error "line N: ..." for whatever goes wrong. What is left
/// of `limits.max_steps` goes to `steps_left`, also when it throws.
std::string render(const Block& body, const std::vector<std::pair<std::string, Value>>& variables, const Limits& limits,
                   int64_t unix_seconds, size_t* steps_left = nullptr);

}  // namespace kvcal::jinja
