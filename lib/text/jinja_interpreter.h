// Runs the tree of a template.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_runtime.h"

namespace kvcal::jinja {

/// Renders `body` with `variables` in scope. Throws Error "line N: ..." for whatever goes wrong.
std::string render(const Block& body, const std::vector<std::pair<std::string, Value>>& variables, const Limits& limits,
                   int64_t unix_seconds);

/// "loop" inside a for: where it stands, and how to recurse.
struct LoopState : std::enable_shared_from_this<LoopState> {
  std::shared_ptr<const Values> items;
  size_t index = 0;                                    // from 0
  size_t depth = 0;                                    // of recursion, from 0
  std::function<Value(Runtime&, Arguments&)> recurse;  // empty unless {% for ... recursive %}
  bool finished = false;  // then nothing is remembered any more: a loop that holds itself would never be freed
  bool seen_change = false;
  Values last_change;
};

Value loop_attribute(Runtime& rt, LoopState& loop, const std::string& name);

}  // namespace kvcal::jinja
