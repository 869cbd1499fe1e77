#include "jinja/interpreter.h"

#include <algorithm>
#include <deque>

#include "jinja/evaluator.h"
#include "jinja/loop.h"

namespace kvcal::jinja {
namespace {

enum class Flow { Next, Break, Continue };

std::vector<std::pair<std::string, Value>> macro_attributes(Budget& budget, const MacroDefinition& m) {
  List names(&budget);
  for (const std::string& p : m.parameters) names.push_back(Value::text(&budget, p));
  const bool has_caller = std::count(m.parameters.begin(), m.parameters.end(), "caller") > 0;
  return {{"name", m.is_call_block ? Value::none() : Value::text(&budget, m.name)},
          {"arguments", Value::tuple(std::move(names))},
          {"catch_kwargs", Value::boolean(m.uses_kwargs)},
          {"catch_varargs", Value::boolean(m.uses_varargs)},
          {"caller", Value::boolean(m.uses_caller)},
          {"explicit_caller", Value::boolean(has_caller)}};
}

class Interpreter {
 public:
  Interpreter(const Limits& limits, int64_t unix_seconds, size_t* steps_left)
      : rt_(limits, unix_seconds), steps_left_(steps_left) {}

  // Macros refer to the scope of their definition, and scopes to macros: the scopes are kept, and emptied in the end.
  ~Interpreter() {
    for (Scope& s : scopes_) s.names.clear();
    if (steps_left_) *steps_left_ = rt_.steps_left();
  }

  std::string run(const Block& body, const std::vector<std::pair<std::string, Value>>& variables) {
    try {
      Scope& root = new_scope(nullptr);
      root.names = variables;
      execute(body, new_scope(&root));
      return out_.take().first;
    } catch (const Error& e) {
      fail("line " + std::to_string(rt_.line) + ": " + printable(e.what(), kLongestMessage));
    }
  }

 private:
  Scope& new_scope(Scope* outer) {
    scopes_.emplace_back(rt_, outer);
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
  void keep_scopes() { scopes_with_macros_ = scopes_.size(); }

  void write(std::string_view text) {
    if (text.size() > rt_.limits().max_output_bytes - out_.size())
      fail("the rendering is larger than " + std::to_string(rt_.limits().max_output_bytes) + " bytes");
    out_ += text;
  }
  void write(const Value& v) { write(AsText(rt_, v).view()); }

  // What `body` prints, as a text of its own.
  template <class Body>
  Value captured(Body&& body) {
    PaidText outer = std::exchange(out_, PaidText(rt_));
    try {
      body();
    } catch (...) {
      out_ = std::move(outer);
      throw;
    }
    return Value::text(std::exchange(out_, std::move(outer)));
  }

  Flow execute(const Block& body, Scope& scope) {
    for (const StmtPtr& s : body)
      if (const Flow f = execute(*s, scope); f != Flow::Next) return f;
    return Flow::Next;
  }

  Flow execute(const Stmt& s, Scope& scope) {
    const Nesting guard(eval_.nesting());
    rt_.step();
    rt_.line = s.line;
    switch (s.kind) {
      case StmtKind::Data:
        write(s.text);
        break;
      case StmtKind::Print:
        for (const ExprPtr& e : s.exprs) {
          const Value v = eval_.evaluate(*e, scope);
          rt_.line = s.line;
          write(v);
        }
        break;
      case StmtKind::If:
        return execute_if(s, scope);
      case StmtKind::For:
        return execute_for(s, eval_.evaluate(*s.exprs[0], scope), scope, 0);
      case StmtKind::Set:
        assign(*s.target, eval_.evaluate(*s.exprs[0], scope), scope);
        break;
      case StmtKind::SetBlock:
      case StmtKind::Filter:
        return execute_filtered(s, scope);
      case StmtKind::With:
        return execute_with(s, scope);
      case StmtKind::Macro:
        keep_scopes();
        scope.set(rt_, s.macro->name, make_macro(s.macro, scope));
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
      case StmtKind::Hide:
        for (const std::string& name : s.names) scope.set(rt_, name, rt_.undefined("'" + name + "' is undefined"));
        break;
    }
    return Flow::Next;
  }

  Flow execute_if(const Stmt& s, Scope& scope) {
    for (size_t i = 0; i < s.exprs.size(); ++i)
      if (eval_.evaluate(*s.exprs[i], scope).truthy()) return execute(s.branches[i], scope);
    return s.branches.size() > s.exprs.size() ? execute(s.branches.back(), scope) : Flow::Next;
  }

  Flow execute_filtered(const Stmt& s, Scope& scope) {
    LocalScope inner(*this, &scope);
    Flow flow = Flow::Next;
    Value v = captured([&] { flow = execute(s.branches[0], *inner); });
    if (flow != Flow::Next) return flow;  // what was written so far is lost, as in the reference
    for (const ExprPtr& f : s.filters) v = eval_.filter(*f, v, *inner);
    if (s.kind == StmtKind::SetBlock)
      assign(*s.target, std::move(v), scope);
    else
      write(v);
    return Flow::Next;
  }

  Flow execute_with(const Stmt& s, Scope& scope) {
    LocalScope inner(*this, &scope);
    for (size_t i = 0; i < s.targets.size(); ++i) assign(*s.targets[i], eval_.evaluate(*s.exprs[i], scope), *inner);
    return execute(s.branches[0], *inner);
  }

  // The items for which the condition of {% for ... if ... %} holds, each looked at when the loop comes to it.
  Value filtered(const Stmt& s, const Value& iterable, Scope& scope) {
    return Value::generator(rt_, iterable.depth(), [this, &s, &scope, items = Cursor(rt_, iterable)]() mutable {
      std::optional<Value> item;
      while ((item = items.next())) {
        LocalScope probe(*this, &scope);
        assign(*s.target, *item, *probe);
        if (eval_.evaluate(*s.exprs[1], *probe).truthy()) break;
      }
      return item;
    });
  }

  Flow execute_for(const Stmt& s, const Value& iterable, Scope& scope, size_t depth) {
    if (depth > rt_.limits().max_depth)
      fail("recursive loop deeper than " + std::to_string(rt_.limits().max_depth) + " levels");
    const auto loop =
        std::make_shared<LoopState>(rt_, s.exprs.size() > 1 ? filtered(s, iterable, scope) : iterable, depth);
    if (s.recursive)
      loop->recurse = [this, &s, &scope, depth](Runtime&, Arguments& arguments) {
        Bound b("loop()", arguments, {"iterable"});
        const Value inner = b.at(0);
        return captured([&] { execute_for(s, inner, scope, depth + 1); });
      };
    const bool reached_an_end = run_passes(s, loop, scope);
    loop->finish();
    if (reached_an_end || s.branches.size() < 2) return Flow::Next;
    LocalScope inner(*this, &scope);
    return execute(s.branches[1], *inner);
  }

  // Whether some pass came to the end of the body, by neither break nor continue: then there is no else.
  bool run_passes(const Stmt& s, const std::shared_ptr<LoopState>& loop, Scope& scope) {
    bool reached_an_end = false;
    while (const Value* item = loop->advance()) {
      rt_.step();
      LocalScope inner(*this, &scope);
      (*inner).set(rt_, "loop", Value::loop(loop));
      assign(*s.target, *item, *inner);
      const Flow flow = execute(s.branches[0], *inner);
      if (flow == Flow::Break) break;
      reached_an_end = reached_an_end || flow == Flow::Next;
    }
    return reached_an_end;
  }

  void execute_call(const Stmt& s, Scope& scope) {
    const Expr& call = *s.exprs[0];
    keep_scopes();
    const Value function = eval_.evaluate(*call.items[0], scope);
    Arguments arguments = eval_.arguments(call.call, scope);
    arguments.add("caller", make_macro(s.macro, scope));
    write(rt_.call(function, arguments));
  }

  Value make_macro(const std::shared_ptr<MacroDefinition>& macro, Scope& definition) {
    Callable c;
    c.held = Held(&rt_, sizeof(Callable) + 1024 + macro->name.size());  // and its attributes
    c.name = macro->name;
    c.call = [this, macro, &definition](Runtime&, Arguments& arguments) {
      return while_doing("macro '" + macro->name + "'", [&] { return call_macro(*macro, definition, arguments); });
    };
    c.printed = macro->is_call_block ? "<Macro anonymous>" : "<Macro '" + macro->name + "'>";
    c.attributes = macro_attributes(rt_, *macro);
    return Value::callable(std::move(c));
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
    Value text = captured([&] { execute(m.body, *inner); });
    rt_.line = line;
    return text;
  }

  void bind_parameters(const MacroDefinition& m, Arguments& arguments, Scope& inner) {
    std::vector<bool> given(m.parameters.size(), false);
    bind_positional(m, arguments, inner, given);
    bind_named(m, arguments, inner, given);
    if (m.uses_varargs) {
      const size_t used = std::min(m.parameters.size(), arguments.positional.size());
      List rest(&rt_);
      for (size_t i = used; i < arguments.positional.size(); ++i) rest.push_back(arguments.positional[i]);
      inner.set(rt_, "varargs", Value::tuple(std::move(rest)));
    }
    bind_defaults(m, inner, given);
  }

  void bind_positional(const MacroDefinition& m, const Arguments& arguments, Scope& inner, std::vector<bool>& given) {
    const size_t n = m.parameters.size();
    for (size_t i = 0; i < std::min(n, arguments.positional.size()); ++i) {
      if (m.uses_caller && m.parameters[i] == "caller") fail("parameter 'caller' cannot be given by position");
      inner.set(rt_, m.parameters[i], arguments.positional[i]);
      given[i] = true;
    }
    if (arguments.positional.size() > n && !m.uses_varargs)
      fail("takes not more than " + std::to_string(n) + " arguments, " + std::to_string(arguments.positional.size()) +
           " given");
  }

  void bind_named(const MacroDefinition& m, Arguments& arguments, Scope& inner, std::vector<bool>& given) {
    Dict extra(&rt_);
    Value caller = rt_.undefined("'caller' is undefined: the macro is not used in a call block");
    for (auto& [name, value] : arguments.named) {
      rt_.steps(m.parameters.size(), 4);
      const auto it = std::find(m.parameters.begin(), m.parameters.end(), name);
      if (it != m.parameters.end()) {
        const auto i = static_cast<size_t>(it - m.parameters.begin());
        if (given[i]) fail("got two values for argument '" + name + "'");
        inner.set(rt_, name, value);
        given[i] = true;
      } else if (name == "caller" && m.uses_caller) {
        caller = value;
      } else if (m.uses_kwargs) {
        extra.set(rt_.text(name), value);
      } else {
        fail("takes no keyword argument '" + name + "'");
      }
    }
    if (m.uses_caller && std::count(m.parameters.begin(), m.parameters.end(), "caller") == 0)
      inner.set(rt_, "caller", caller);
    if (m.uses_kwargs) inner.set(rt_, "kwargs", Value::dict(std::move(extra)));
  }

  void bind_defaults(const MacroDefinition& m, Scope& inner, const std::vector<bool>& given) {
    const size_t n = m.parameters.size();
    const size_t required = n - m.defaults.size();
    for (size_t i = 0; i < n; ++i) {
      if (given[i]) continue;
      inner.set(rt_, m.parameters[i],
                i < required ? rt_.undefined("parameter '" + m.parameters[i] + "' was not provided")
                             : eval_.evaluate(*m.defaults[i - required], inner));
    }
  }

  void assign(const Expr& target, Value v, Scope& scope) {
    if (target.kind == ExprKind::Name) return scope.set(rt_, target.name, std::move(v));
    if (target.kind == ExprKind::Attribute) {
      const Value object = eval_.lookup(target.items[0]->name, scope);
      Namespace* n = object.as_namespace();
      if (!n)
        fail("cannot assign attribute '" + target.name + "' of '" + type_name(object) + "', expected a namespace");
      if (target.name.starts_with("_")) fail("namespace attribute '" + target.name + "' begins with an underscore");
      rt_.steps(n->attributes.size(), 4);
      return n->set(target.name, std::move(v));
    }
    if (v.is_undefined()) fail_undefined(v);
    const List items = iterate(rt_, v);
    if (items.size() != target.items.size())
      fail("cannot unpack " + std::to_string(items.size()) + " values into " + std::to_string(target.items.size()) +
           " names");
    for (size_t i = 0; i < items.size(); ++i) assign(*target.items[i], items[i], scope);
  }

  Runtime rt_;
  size_t* steps_left_;
  Evaluator eval_{rt_};
  std::deque<Scope> scopes_;       // a deque: references stay valid
  size_t scopes_with_macros_ = 0;  // this many of them may be referred to by macros
  size_t depth_ = 0;               // of macros
  PaidText out_{rt_};
};

}  // namespace

std::string render(const Block& body, const std::vector<std::pair<std::string, Value>>& variables, const Limits& limits,
                   int64_t unix_seconds, size_t* steps_left) {
  return Interpreter(limits, unix_seconds, steps_left).run(body, variables);
}

}  // namespace kvcal::jinja
