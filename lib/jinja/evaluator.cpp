#include "jinja/evaluator.h"

#include "jinja/loop.h"

namespace kvcal::jinja {
namespace {

constexpr size_t kDeepestNesting = 1000;

}  // namespace

Nesting::Nesting(size_t& depth) : depth_(depth) {
  if (depth >= kDeepestNesting)
    fail("expressions and blocks inside each other, deeper than " + std::to_string(kDeepestNesting) + " levels");
  ++depth;
}

Value Evaluator::lookup(const std::string& name, const Scope& scope) {
  if (const Value* v = scope.find(rt_, name)) return *v;
  Value global = find_global(rt_, name);
  return global.is_undefined() ? rt_.undefined("'" + name + "' is undefined") : global;
}

Arguments Evaluator::arguments(const CallArguments& call, Scope& scope) {
  Arguments out(rt_);
  for (const ExprPtr& e : call.positional) out.add(evaluate(*e, scope));
  if (call.star)
    for (Cursor items(rt_, evaluate(*call.star, scope)); auto item = items.next();) out.add(std::move(*item));
  for (const auto& [name, e] : call.named) out.add(name, evaluate(*e, scope));
  if (call.double_star) {
    const Value v = evaluate(*call.double_star, scope);
    if (!v.as_dict()) fail("** needs a dict, not " + type_name(v));
    for (const auto& [key, value] : v.as_dict()->items) {
      PaidText name(rt_);
      append_str(name, key);
      out.add(std::string(name.view()), value);
    }
  }
  return out;
}

Value Evaluator::filter(const Expr& e, const Value& input, Scope& scope) {
  Arguments given = arguments(e.call, scope);
  rt_.line = e.line;
  return rt_.call_filter(e.name, input, given);
}

Value Evaluator::compare(const Expr& e, Scope& scope) {
  Value left = evaluate(*e.items[0], scope);
  for (size_t i = 0; i < e.ops.size(); ++i) {
    Value right = evaluate(*e.items[i + 1], scope);
    if (!rt_.compare(e.ops[i], left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Evaluator::dict(const Expr& e, Scope& scope) {
  Dict d(&rt_);
  for (size_t i = 0; i < e.items.size(); i += 2) {
    const Value key = evaluate(*e.items[i], scope);
    d.set(key, evaluate(*e.items[i + 1], scope));
  }
  return Value::dict(std::move(d));
}

Value Evaluator::item(const Expr& e, Scope& scope) {
  const Value object = evaluate(*e.items[0], scope);
  const Expr& key = *e.items[1];
  if (key.kind != ExprKind::Slice) return rt_.item(object, evaluate(key, scope));
  Value bounds[3];
  for (size_t i = 0; i < 3; ++i) bounds[i] = key.items[i] ? evaluate(*key.items[i], scope) : Value::none();
  return rt_.slice(object, bounds[0], bounds[1], bounds[2]);
}

Value Evaluator::call(const Expr& e, Scope& scope) {
  const Value function = evaluate(*e.items[0], scope);
  Arguments given = arguments(e.call, scope);
  rt_.line = e.line;
  if (LoopState* loop = function.as_loop()) {
    if (!loop->recurse) fail("the loop is called, but it is not marked 'recursive'");
    return loop->recurse(rt_, given);
  }
  return rt_.call(function, given);
}

Value Evaluator::unary(const Expr& e, Scope& scope) {
  const Value v = evaluate(*e.items[0], scope);
  if (e.name == "not") return Value::boolean(!v.truthy());
  if (e.name == "-") return rt_.negative(v);
  return rt_.negative(rt_.negative(v));
}

Value Evaluator::evaluate(const Expr& e, Scope& scope) {
  const Nesting guard(nesting_);
  rt_.step();
  rt_.line = e.line;
  switch (e.kind) {
    case ExprKind::Constant:
      return e.constant;
    case ExprKind::Name:
      return lookup(e.name, scope);
    case ExprKind::List:
    case ExprKind::Tuple: {
      List items(&rt_);
      for (const ExprPtr& item : e.items) items.push_back(evaluate(*item, scope));
      return Value::sequence(e.kind == ExprKind::List ? SequenceKind::List : SequenceKind::Tuple, std::move(items));
    }
    case ExprKind::DictLiteral:
      return dict(e, scope);
    case ExprKind::Unary:
      return unary(e, scope);
    case ExprKind::Binary: {
      const Value left = evaluate(*e.items[0], scope);
      return rt_.binary(e.name, left, evaluate(*e.items[1], scope));
    }
    case ExprKind::And:
    case ExprKind::Or: {
      Value left = evaluate(*e.items[0], scope);
      return left.truthy() == (e.kind == ExprKind::Or) ? left : evaluate(*e.items[1], scope);
    }
    case ExprKind::Compare:
      return compare(e, scope);
    case ExprKind::Conditional:
      if (evaluate(*e.items[0], scope).truthy()) return evaluate(*e.items[1], scope);
      if (e.items.size() > 2) return evaluate(*e.items[2], scope);
      return rt_.undefined("the inline if-expression has no else and its condition is false");
    case ExprKind::Attribute:
      return rt_.attribute(evaluate(*e.items[0], scope), e.name);
    case ExprKind::Item:
      return item(e, scope);
    case ExprKind::Slice:
      fail("a slice among several subscripts is not supported");
    case ExprKind::Call:
      return call(e, scope);
    case ExprKind::Filter:
      return filter(e, evaluate(*e.items[0], scope), scope);
    case ExprKind::Test: {
      const Value v = evaluate(*e.items[0], scope);
      Arguments given = arguments(e.call, scope);
      rt_.line = e.line;
      return Value::boolean(rt_.call_test(e.name, v, given));
    }
  }
  return Value();
}

}  // namespace kvcal::jinja
