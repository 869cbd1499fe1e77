// The parts of an expression, for those who look at templates before they run.
#pragma once

#include "jinja/ast.h"

namespace kvcal::jinja {

template <class Visit>
void for_each_child(const Expr& e, Visit&& visit) {
  const auto all = [&](const std::vector<ExprPtr>& parts) {
    for (const ExprPtr& part : parts)
      if (part) visit(*part);
  };
  all(e.items);
  all(e.call.positional);
  for (const auto& [name, value] : e.call.named) visit(*value);
  if (e.call.star) visit(*e.call.star);
  if (e.call.double_star) visit(*e.call.double_star);
}

}  // namespace kvcal::jinja
