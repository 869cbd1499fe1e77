#include "jinja/checks.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/error.h"
#include "jinja/expression_walk.h"
#include "jinja/runtime.h"

namespace kvcal::jinja {
namespace {

// Filters of the reference that are not supported here: a template may have them where it does not get.
constexpr std::array<std::string_view, 9> kOtherFilters{
    "filesizeformat", "forceescape", "pprint", "random", "striptags", "urlencode", "urlize", "wordwrap", "xmlattr"};

// Where the checks are.
struct Place {
  bool optional = false;  // in an if: filters and tests are looked for when they are used
  bool in_loop = false;

  Place inside_if() const { return {true, in_loop}; }
  Place inside_block() const { return {false, in_loop}; }
};

template <class Check>
void at_line(int line, Check&& check) {
  while_doing("line " + std::to_string(line), check);
}

// "false and x" is false before the reference looks at x.
bool decided_by_left(const Expr& e) {
  if (e.kind != ExprKind::And && e.kind != ExprKind::Or) return false;
  return e.items[0]->kind == ExprKind::Constant && e.items[0]->constant.truthy() == (e.kind == ExprKind::Or);
}

void check_expression(const Expr& e, Place place) {
  if (decided_by_left(e)) return;
  if (e.kind == ExprKind::Conditional) place.optional = true;
  if (e.kind == ExprKind::Filter && !place.optional && !find_filter(e.name) &&
      std::find(kOtherFilters.begin(), kOtherFilters.end(), e.name) == kOtherFilters.end())
    at_line(e.line, [&] { fail_unknown_filter(e.name); });
  if (e.kind == ExprKind::Test && !place.optional && !find_test(e.name))
    at_line(e.line, [&] { fail_unknown_test(e.name); });
  for_each_child(e, [&](const Expr& child) { check_expression(child, place); });
}

void check_target(const Expr& target, Place place) {
  if (target.kind == ExprKind::Name && target.name == "loop" && place.in_loop)
    fail("line " + std::to_string(target.line) + ": inside a loop nothing can be assigned to 'loop'");
  if (target.kind == ExprKind::Tuple)
    for (const ExprPtr& e : target.items) check_target(*e, place);
}

void check_parameters(const MacroDefinition& m, int line) {
  const std::set<std::string> names(m.parameters.begin(), m.parameters.end());
  at_line(line, [&] {
    if (names.size() < m.parameters.size()) fail("macro '" + m.name + "' has a parameter twice");
    const auto caller = std::find(m.parameters.begin(), m.parameters.end(), "caller");
    if (m.uses_caller && m.parameters.end() - caller > static_cast<ptrdiff_t>(m.defaults.size()))
      fail("parameter 'caller' of macro '" + m.name + "' needs a default");
  });
}

void check_block(const Block& body, Place place);

void check_statement(const Stmt& s, Place place) {
  const bool is_if = s.kind == StmtKind::If, is_for = s.kind == StmtKind::For;
  if (is_for) place.in_loop = true;
  const Place inside = is_if ? place.inside_if() : place.inside_block();
  for (size_t i = 0; i < s.exprs.size(); ++i)
    check_expression(*s.exprs[i], is_if || (is_for && i > 0) ? inside : place);
  for (const ExprPtr& f : s.filters) check_expression(*f, inside);
  if (s.target) check_target(*s.target, place);
  for (const Block& branch : s.branches) check_block(branch, inside);
  if (!s.macro) return;
  check_parameters(*s.macro, s.line);
  for (const ExprPtr& e : s.macro->defaults) check_expression(*e, inside);
  check_block(s.macro->body, inside);
}

void check_block(const Block& body, Place place) {
  for (const StmtPtr& s : body) check_statement(*s, place);
}

}  // namespace

void check_template(const Block& body) { check_block(body, {}); }

}  // namespace kvcal::jinja
