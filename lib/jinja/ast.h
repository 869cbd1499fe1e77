// The tree of a template. One node type for expressions and one for statements, each with the fields its kind uses.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "jinja/value.h"

namespace kvcal::jinja {

// Errors hold names, keys and what raise_exception is given: the template's own text, of any length.
constexpr size_t kLongestMessage = 1000;  // bytes

enum class ExprKind {
  Constant,     // constant
  Name,         // name
  List,         // items
  Tuple,        // items
  DictLiteral,  // items: key, value, key, value, ...
  Unary,        // name: "-", "+", "not"; items[0]
  Binary,       // name: + - * / // % ** ~; items[0], items[1]
  And,          // items[0], items[1]
  Or,           // items[0], items[1]
  Compare,      // items[0] ops[0] items[1] ops[1] items[2] ...: == != < <= > >= in notin
  Conditional,  // items: test, value, else (may be absent)
  Attribute,    // items[0] . name
  Item,         // items[0] [ items[1] ]
  Slice,        // items: start, stop, step; each may be null
  Call,         // items[0] ( call )
  Filter,       // items[0] (null inside a filter block) | name ( call )
  Test,         // items[0] is name ( call ); negated by an outer Unary
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct CallArguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star;         // *args
  ExprPtr double_star;  // **kwargs
};

struct Expr {
  ExprKind kind;
  int line;
  std::string name;
  Value constant;
  std::vector<ExprPtr> items;
  std::vector<std::string> ops;
  CallArguments call;
};

enum class StmtKind {
  Data,        // text
  Print,       // exprs, one behind the other
  If,          // exprs[i] guards branches[i]; one more branch is the else
  For,         // target in exprs[0] if exprs[1]; branches: body, else
  Set,         // target = exprs[0]
  SetBlock,    // target, filters, branches[0]
  With,        // targets[i] = exprs[i]; branches[0]
  Macro,       // macro
  CallBlock,   // exprs[0] is a Call; macro is its body
  Filter,      // filters, branches[0]
  Generation,  // branches[0]
  Break,
  Continue,
  Hide,  // names: undefined from here on, whoever gave them
};

struct Stmt;
using StmtPtr = std::unique_ptr<Stmt>;
using Block = std::vector<StmtPtr>;

struct MacroDefinition {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<ExprPtr> defaults;  // of the last parameters
  Block body;
  bool uses_caller = false, uses_varargs = false, uses_kwargs = false;
  bool is_call_block = false;
};

/// What is assigned to: a Name, "ns.attribute" (Attribute) or a Tuple of names.
struct Stmt {
  StmtKind kind;
  int line;
  std::string text;
  ExprPtr target;
  std::vector<ExprPtr> targets;
  std::vector<ExprPtr> exprs;
  std::vector<ExprPtr> filters;  // outermost last; their items[0] is null
  std::vector<Block> branches;
  std::shared_ptr<MacroDefinition> macro;
  std::vector<std::string> names;
  bool recursive = false;
};

}  // namespace kvcal::jinja
