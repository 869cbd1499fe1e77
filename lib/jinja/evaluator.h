// Values of expressions, and the scopes that names are looked up in.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "jinja/ast.h"
#include "jinja/runtime.h"

namespace kvcal::jinja {

// Names of one frame: the template, an iteration of a loop, a call of a macro, a block. Lookups go outwards.
struct Scope {
  Scope(Budget& payer, Scope* around) : outer(around), held(&payer, 256) {}

  Scope* outer;
  Held held;
  std::vector<std::pair<std::string, Value>> names;

  void set(Budget& budget, const std::string& name, Value v) {
    budget.steps(names.size(), kNameSteps);
    for (auto& [key, value] : names)
      if (key == name) {
        value = std::move(v);
        return;
      }
    held.grow(name.size() + 2 * sizeof(names[0]));
    names.emplace_back(name, std::move(v));
  }
  const Value* find(Budget& budget, const std::string& name) const {
    for (const Scope* s = this; s; s = s->outer) {
      budget.steps(s->names.size() + 1, kNameSteps);
      for (const auto& [key, value] : s->names)
        if (key == name) return &value;
    }
    return nullptr;
  }

 private:
  static constexpr size_t kNameSteps = 4;
};

/// Counts expressions and statements inside each other, macros included: bounds the stack that running a template
/// takes.
class Nesting {
 public:
  /// Throws Error when it gets too deep.
  explicit Nesting(size_t& depth);
  ~Nesting() { --depth_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  size_t& depth_;
};

class Evaluator {
 public:
  explicit Evaluator(Runtime& rt) : rt_(rt) {}

  Value evaluate(const Expr& e, Scope& scope);
  Arguments arguments(const CallArguments& call, Scope& scope);
  /// The filter of `e` applied to `input`.
  Value filter(const Expr& e, const Value& input, Scope& scope);
  /// A name of the scopes, else a global function, else undefined.
  Value lookup(const std::string& name, const Scope& scope);
  size_t& nesting() { return nesting_; }

 private:
  Value compare(const Expr& e, Scope& scope);
  Value dict(const Expr& e, Scope& scope);
  Value item(const Expr& e, Scope& scope);
  Value call(const Expr& e, Scope& scope);
  Value unary(const Expr& e, Scope& scope);

  Runtime& rt_;
  size_t nesting_ = 0;
};

}  // namespace kvcal::jinja
