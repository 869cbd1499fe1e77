#include "text/jinja_interpreter.h"

#include <algorithm>
#include <deque>

namespace kvcal::jinja {
namespace {

// Names of one frame: the template, an iteration of a loop, a call of a macro, a block. Lookups go outwards.
struct Scope {
  Scope* outer = nullptr;
  std::vector<std::pair<std::string, Value>> names;

  void set(const std::string& name, Value v) {
    for (auto& [key, value] : names)
      if (key == name) {
        value = std::move(v);
        return;
      }
    names.emplace_back(name, std::move(v));
  }
  const Value* find(const std::string& name) const {
    for (const Scope* s = this; s; s = s->outer)
      for (const auto& [key, value] : s->names)
        if (key == name) return &value;
    return nullptr;
  }
};

// Expressions and statements inside each other, macros included: bounds the stack that running a template takes.
constexpr size_t kDeepestNesting = 1000;

enum class Flow { Next, Break, Continue };

class Interpreter {
 public:
  Interpreter(const Limits& limits, int64_t unix_seconds) : rt_(limits, unix_seconds) {}

  // Macros refer to the scope of their definition, and scopes to macros: the scopes are kept, and emptied in the end.
  ~Interpreter() {
    for (Scope& s : scopes_) s.names.clear();
  }

  std::string run(const Block& body, const std::vector<std::pair<std::string, Value>>& variables) {
    try {
      Scope& root = new_scope(nullptr);
      root.names = variables;
      execute(body, new_scope(&root));
      return std::move(out_);
    } catch (const Error& e) {
      fail("line " + std::to_string(rt_.line) + ": " + e.what());
    }
  }

 private:
  Scope& new_scope(Scope* outer) {
    scopes_.emplace_back();
    scopes_.back().outer = outer;
    return scopes_.back();
  }

  // A scope that nothing outlives is dropped again, unless a macro was defined in it.
  class LocalScope {
   public:
    LocalScope(Interpreter& in, Scope* outer) : in_(in), kept_(in.scopes_.size()), scope_(&in.new_scope(outer)) {}
    ~LocalScope() {
      if (in_.scopes_with_macros_ <= kept_)
        while (in_.scopes_.size() > kept_) in_.scopes_.pop_back();
    }
    LocalScope(const LocalScope&) = delete;
    LocalScope& operator=(const LocalScope&) = delete;
    Scope& operator*() { return *scope_; }

   private:
    Interpreter& in_;
    size_t kept_;
    Scope* scope_;
  };

  // A macro is about to refer to the scopes that are open now.
  void keep_scopes() {
    rt_.charge(1024);  // they stay until the end, and this is about their size
    scopes_with_macros_ = scopes_.size();
  }

  void write(std::string_view text) {
    if (out_.size() + text.size() > rt_.limits().max_output_bytes)
      fail("the rendering is larger than " + std::to_string(rt_.limits().max_output_bytes) + " bytes");
    out_ += text;
  }

  // What `body` prints, as a text of its own.
  template <class Body>
  std::string captured(Body&& body) {
    std::string outer = std::move(out_);
    out_.clear();
    try {
      body();
    } catch (...) {
      out_ = std::move(outer);
      throw;
    }
    rt_.charge(out_.size());
    std::string inner = std::move(out_);
    out_ = std::move(outer);
    return inner;
  }

  Flow execute(const Block& body, Scope& scope) {
    for (const StmtPtr& s : body)
      if (const Flow f = execute(*s, scope); f != Flow::Next) return f;
    return Flow::Next;
  }

  class Nesting {
   public:
    explicit Nesting(Interpreter& in) : in_(in) {
      if (++in.nesting_ > kDeepestNesting) {
        --in.nesting_;
        fail("expressions and blocks inside each other, deeper than " + std::to_string(kDeepestNesting) + " levels");
      }
    }
    ~Nesting() { --in_.nesting_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    Interpreter& in_;
  };

  Flow execute(const Stmt& s, Scope& scope) {
    const Nesting guard(*this);
    rt_.step();
    rt_.line = s.line;
    switch (s.kind) {
      case StmtKind::Data:
        write(s.text);
        break;
      case StmtKind::Print: {
        const Value v = evaluate(*s.exprs[0], scope);
        rt_.line = s.line;
        write(to_str(v));
        break;
      }
      case StmtKind::If:
        return execute_if(s, scope);
      case StmtKind::For:
        execute_for(s, evaluate(*s.exprs[0], scope), scope, 0);
        break;
      case StmtKind::Set:
        assign(*s.target, evaluate(*s.exprs[0], scope), scope);
        break;
      case StmtKind::SetBlock:
      case StmtKind::Filter:
        return execute_filtered(s, scope);
      case StmtKind::With:
        return execute_with(s, scope);
      case StmtKind::Macro:
        keep_scopes();
        scope.set(s.macro->name, make_macro(s.macro, scope));
        break;
      case StmtKind::CallBlock:
        execute_call(s, scope);
        break;
      case StmtKind::Generation: {
        LocalScope inner(*this, &scope);
        return execute(s.branches[0], *inner);
      }
      case StmtKind::Break:
        return Flow::Break;
      case StmtKind::Continue:
        return Flow::Continue;
    }
    return Flow::Next;
  }

  Flow execute_if(const Stmt& s, Scope& scope) {
    for (size_t i = 0; i < s.exprs.size(); ++i)
      if (evaluate(*s.exprs[i], scope).truthy()) return execute(s.branches[i], scope);
    return s.branches.size() > s.exprs.size() ? execute(s.branches.back(), scope) : Flow::Next;
  }

  Flow execute_filtered(const Stmt& s, Scope& scope) {
    LocalScope inner(*this, &scope);
    Flow flow = Flow::Next;
    Value v = Value::text(captured([&] { flow = execute(s.branches[0], *inner); }));
    for (const ExprPtr& f : s.filters) v = apply_filter(*f, v, *inner);
    if (s.kind == StmtKind::SetBlock)
      assign(*s.target, std::move(v), scope);
    else
      write(to_str(v));
    return flow;
  }

  Flow execute_with(const Stmt& s, Scope& scope) {
    LocalScope inner(*this, &scope);
    for (size_t i = 0; i < s.targets.size(); ++i) assign(*s.targets[i], evaluate(*s.exprs[i], scope), *inner);
    return execute(s.branches[0], *inner);
  }

  void execute_for(const Stmt& s, const Value& iterable, Scope& scope, size_t depth) {
    if (depth > rt_.limits().max_depth)
      fail("recursive loop deeper than " + std::to_string(rt_.limits().max_depth) + " levels");
    auto items = std::make_shared<Values>(iterate(iterable));
    rt_.charge(items->size() * sizeof(Value));
    if (s.exprs.size() > 1)
      std::erase_if(*items, [&](const Value& v) {
        LocalScope probe(*this, &scope);
        assign(*s.target, v, *probe);
        return !evaluate(*s.exprs[1], *probe).truthy();
      });
    if (items->empty()) {
      if (s.branches.size() > 1) {
        LocalScope inner(*this, &scope);
        execute(s.branches[1], *inner);
      }
      return;
    }
    auto loop = std::make_shared<LoopState>();
    loop->items = items;
    loop->depth = depth;
    if (s.recursive)
      loop->recurse = [this, &s, &scope, depth](Runtime&, Arguments& arguments) {
        Bound b("loop()", arguments, {"iterable"});
        const Value inner = b.at(0);
        return Value::text(captured([&] { execute_for(s, inner, scope, depth + 1); }));
      };
    for (; loop->index < items->size(); ++loop->index) {
      rt_.step();
      LocalScope inner(*this, &scope);
      (*inner).set("loop", Value::loop(loop));
      assign(*s.target, (*items)[loop->index], *inner);
      if (execute(s.branches[0], *inner) == Flow::Break) break;
    }
    // A template can keep the loop; what it refers to ends here.
    loop->finished = true;
    loop->recurse = {};
    loop->last_change.clear();
  }

  void execute_call(const Stmt& s, Scope& scope) {
    const Expr& call = *s.exprs[0];
    keep_scopes();
    const Value function = evaluate(*call.items[0], scope);
    Arguments arguments = evaluate_arguments(call.call, scope);
    arguments.named.emplace_back("caller", make_macro(s.macro, scope));
    write(to_str(rt_.call(function, arguments)));
  }

  Value make_macro(const std::shared_ptr<MacroDefinition>& macro, Scope& definition) {
    return Value::callable(macro->name, [this, macro, &definition](Runtime&, Arguments& arguments) {
      return while_doing("macro '" + macro->name + "'", [&] { return call_macro(*macro, definition, arguments); });
    });
  }

  Value call_macro(const MacroDefinition& m, Scope& definition, Arguments& arguments) {
    struct Depth {
      size_t& n;
      ~Depth() { --n; }
    } guard{++depth_};
    if (depth_ > rt_.limits().max_depth)
      fail("macros call each other deeper than " + std::to_string(rt_.limits().max_depth) + " levels");
    const int line = rt_.line;
    LocalScope inner(*this, &definition);
    bind_parameters(m, arguments, *inner);
    Value text = Value::text(captured([&] { execute(m.body, *inner); }));
    rt_.line = line;
    return text;
  }

  void bind_parameters(const MacroDefinition& m, Arguments& arguments, Scope& inner) {
    const size_t n = m.parameters.size();
    std::vector<bool> given(n, false);
    for (size_t i = 0; i < std::min(n, arguments.positional.size()); ++i) {
      inner.set(m.parameters[i], arguments.positional[i]);
      given[i] = true;
    }
    if (arguments.positional.size() > n && !m.uses_varargs)
      fail("takes not more than " + std::to_string(n) + " arguments, " + std::to_string(arguments.positional.size()) +
           " given");
    Dict extra;
    Value caller = Value::undefined("'caller' is undefined: the macro is not used in a call block");
    for (auto& [name, value] : arguments.named) {
      const auto it = std::find(m.parameters.begin(), m.parameters.end(), name);
      if (it != m.parameters.end()) {
        const auto i = static_cast<size_t>(it - m.parameters.begin());
        if (given[i]) fail("got two values for argument '" + name + "'");
        inner.set(name, value);
        given[i] = true;
      } else if (name == "caller" && m.uses_caller) {
        caller = value;
      } else if (m.uses_kwargs) {
        extra.set(Value::text(name), value);
      } else {
        fail("takes no keyword argument '" + name + "'");
      }
    }
    if (m.uses_caller && std::count(m.parameters.begin(), m.parameters.end(), "caller") == 0)
      inner.set("caller", caller);
    if (m.uses_varargs) {
      const size_t used = std::min(n, arguments.positional.size());
      inner.set("varargs", Value::tuple({arguments.positional.begin() + static_cast<ptrdiff_t>(used),
                                         arguments.positional.end()}));
    }
    if (m.uses_kwargs) inner.set("kwargs", Value::dict(std::move(extra)));
    const size_t required = n - m.defaults.size();
    for (size_t i = 0; i < n; ++i) {
      if (given[i]) continue;
      inner.set(m.parameters[i], i < required ? Value::undefined("parameter '" + m.parameters[i] + "' was not provided")
                                              : evaluate(*m.defaults[i - required], inner));
    }
  }

  void assign(const Expr& target, Value v, Scope& scope) {
    if (target.kind == ExprKind::Name) return scope.set(target.name, std::move(v));
    if (target.kind == ExprKind::Attribute) {
      const Value object = lookup(target.items[0]->name, scope);
      Namespace* n = object.as_namespace();
      if (!n)
        fail("cannot assign attribute '" + target.name + "' of '" + type_name(object) + "', expected a namespace");
      if (target.name.starts_with("_")) fail("namespace attribute '" + target.name + "' begins with an underscore");
      if (Value* known = n->find(target.name))
        *known = std::move(v);
      else
        n->attributes.emplace_back(target.name, std::move(v));
      return;
    }
    if (v.is_undefined()) fail_undefined(v);
    const Values items = iterate(v);
    if (items.size() != target.items.size())
      fail("cannot unpack " + std::to_string(items.size()) + " values into " + std::to_string(target.items.size()) +
           " names");
    for (size_t i = 0; i < items.size(); ++i) assign(*target.items[i], items[i], scope);
  }

  Value lookup(const std::string& name, const Scope& scope) {
    if (const Value* v = scope.find(name)) return *v;
    Value global = find_global(name);
    return global.is_undefined() ? Value::undefined("'" + name + "' is undefined") : global;
  }

  Arguments evaluate_arguments(const CallArguments& call, Scope& scope) {
    Arguments out;
    for (const ExprPtr& e : call.positional) out.positional.push_back(evaluate(*e, scope));
    if (call.star)
      for (Value& v : iterate(evaluate(*call.star, scope))) out.positional.push_back(std::move(v));
    for (const auto& [name, e] : call.named) out.named.emplace_back(name, evaluate(*e, scope));
    if (call.double_star) {
      const Value v = evaluate(*call.double_star, scope);
      if (!v.as_dict()) fail("** needs a dict, not " + type_name(v));
      for (const auto& [key, value] : v.as_dict()->items) out.named.emplace_back(to_str(key), value);
    }
    return out;
  }

  Value apply_filter(const Expr& e, const Value& input, Scope& scope) {
    Arguments arguments = evaluate_arguments(e.call, scope);
    rt_.line = e.line;
    return rt_.call_filter(e.name, input, arguments);
  }

  Value evaluate_compare(const Expr& e, Scope& scope) {
    Value left = evaluate(*e.items[0], scope);
    for (size_t i = 0; i < e.ops.size(); ++i) {
      Value right = evaluate(*e.items[i + 1], scope);
      if (!rt_.compare(e.ops[i], left, right)) return Value::boolean(false);
      left = std::move(right);
    }
    return Value::boolean(true);
  }

  Value evaluate_dict(const Expr& e, Scope& scope) {
    Dict d;
    for (size_t i = 0; i < e.items.size(); i += 2) {
      const Value key = evaluate(*e.items[i], scope);
      d.set(key, evaluate(*e.items[i + 1], scope));
    }
    rt_.charge(d.items.size() * sizeof(Value));
    return Value::dict(std::move(d));
  }

  Value evaluate_item(const Expr& e, Scope& scope) {
    const Value object = evaluate(*e.items[0], scope);
    const Expr& key = *e.items[1];
    if (key.kind != ExprKind::Slice) return rt_.item(object, evaluate(key, scope));
    Value bounds[3];
    for (size_t i = 0; i < 3; ++i) bounds[i] = key.items[i] ? evaluate(*key.items[i], scope) : Value::none();
    return rt_.slice(object, bounds[0], bounds[1], bounds[2]);
  }

  Value evaluate_call(const Expr& e, Scope& scope) {
    const Value function = evaluate(*e.items[0], scope);
    Arguments arguments = evaluate_arguments(e.call, scope);
    rt_.line = e.line;
    if (LoopState* loop = function.as_loop()) {
      if (!loop->recurse) fail("the loop is called, but it is not marked 'recursive'");
      return loop->recurse(rt_, arguments);
    }
    return rt_.call(function, arguments);
  }

  Value evaluate_unary(const Expr& e, Scope& scope) {
    const Value v = evaluate(*e.items[0], scope);
    if (e.name == "not") return Value::boolean(!v.truthy());
    if (e.name == "-") return rt_.negative(v);
    return rt_.negative(rt_.negative(v));
  }

  Value evaluate(const Expr& e, Scope& scope) {
    const Nesting guard(*this);
    rt_.step();
    rt_.line = e.line;
    switch (e.kind) {
      case ExprKind::Constant:
        return e.constant;
      case ExprKind::Name:
        return lookup(e.name, scope);
      case ExprKind::List:
      case ExprKind::Tuple: {
        Values items;
        for (const ExprPtr& item : e.items) items.push_back(evaluate(*item, scope));
        return rt_.list(std::move(items), e.kind == ExprKind::List ? SequenceKind::List : SequenceKind::Tuple);
      }
      case ExprKind::DictLiteral:
        return evaluate_dict(e, scope);
      case ExprKind::Unary:
        return evaluate_unary(e, scope);
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
        return evaluate_compare(e, scope);
      case ExprKind::Conditional:
        if (evaluate(*e.items[0], scope).truthy()) return evaluate(*e.items[1], scope);
        if (e.items.size() > 2) return evaluate(*e.items[2], scope);
        return Value::undefined("the inline if-expression has no else and its condition is false");
      case ExprKind::Attribute:
        return rt_.attribute(evaluate(*e.items[0], scope), e.name);
      case ExprKind::Item:
        return evaluate_item(e, scope);
      case ExprKind::Slice:
        fail("a slice among several subscripts is not supported");
      case ExprKind::Call:
        return evaluate_call(e, scope);
      case ExprKind::Filter:
        return apply_filter(e, evaluate(*e.items[0], scope), scope);
      case ExprKind::Test: {
        const Value v = evaluate(*e.items[0], scope);
        Arguments arguments = evaluate_arguments(e.call, scope);
        rt_.line = e.line;
        return Value::boolean(rt_.call_test(e.name, v, arguments));
      }
    }
    return Value();
  }

  Runtime rt_;
  std::deque<Scope> scopes_;       // a deque: references stay valid
  size_t scopes_with_macros_ = 0;  // this many of them may be referred to by macros
  size_t depth_ = 0;               // of macros
  size_t nesting_ = 0;             // of everything
  std::string out_;
};

}  // namespace

std::string render(const Block& body, const std::vector<std::pair<std::string, Value>>& variables, const Limits& limits,
                   int64_t unix_seconds) {
  return Interpreter(limits, unix_seconds).run(body, variables);
}

Value loop_attribute(Runtime&, LoopState& loop, const std::string& name) {
  const size_t n = loop.items->size(), i = loop.index;
  const auto number = [](size_t x) { return Value::integer(static_cast<int64_t>(x)); };
  if (name == "index") return number(i + 1);
  if (name == "index0") return number(i);
  if (name == "revindex") return number(n - i);
  if (name == "revindex0") return number(n - i - 1);
  if (name == "first") return Value::boolean(i == 0);
  if (name == "last") return Value::boolean(i + 1 == n);
  if (name == "length") return number(n);
  if (name == "depth") return number(loop.depth + 1);
  if (name == "depth0") return number(loop.depth);
  if (name == "previtem") return i > 0 ? (*loop.items)[i - 1] : Value::undefined("there is no previous item");
  if (name == "nextitem") return i + 1 < n ? (*loop.items)[i + 1] : Value::undefined("there is no next item");
  if (name == "cycle")
    return Value::callable(name, [i](Runtime&, Arguments& a) {
      if (a.positional.empty()) fail("loop.cycle: no items for cycling given");
      return a.positional[i % a.positional.size()];
    });
  if (name == "changed") {
    return Value::callable(name, [l = loop.shared_from_this()](Runtime&, Arguments& a) {
      const bool same = l->seen_change && std::equal(a.positional.begin(), a.positional.end(), l->last_change.begin(),
                                                     l->last_change.end(), equal);
      l->seen_change = true;
      if (!l->finished) l->last_change = a.positional;
      return Value::boolean(!same);
    });
  }
  return Value::undefined("'loop' has no attribute " + quoted(name));
}

}  // namespace kvcal::jinja
