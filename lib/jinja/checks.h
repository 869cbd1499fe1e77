// Mistakes for which the reference refuses a template before it runs.
#pragma once

#include "jinja/ast.h"

namespace kvcal::jinja {

/// Throws Error "line N: ..." for filters and tests that do not exist outside an if, for assignments to "loop" inside a
/// loop, and for parameters of macros that are there twice or cannot be.
void check_template(const Block& body);

}  // namespace kvcal::jinja
