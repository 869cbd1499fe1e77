#include "jinja/content_use.h"

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <string>

#include "jinja/expression_walk.h"

namespace kvcal::jinja {
namespace {

using Names = std::set<std::string>;

void visit_expressions(const Expr& e, const std::function<void(const Expr&)>& f) {
  f(e);
  for_each_child(e, [&](const Expr& child) { visit_expressions(child, f); });
}

void visit_expressions(const std::vector<ExprPtr>& all, const std::function<void(const Expr&)>& f) {
  for (const ExprPtr& e : all)
    if (e) visit_expressions(*e, f);
}

/// All statements, and those in them.
void visit(const Block& body, const std::function<void(const Stmt&)>& f) {
  for (const StmtPtr& s : body) {
    f(*s);
    for (const Block& branch : s->branches) visit(branch, f);
    if (s->macro) visit(s->macro->body, f);
  }
}

/// Without the filters, tests and slices around it.
const Expr& inside(const Expr& e) {
  const bool sliced = e.kind == ExprKind::Item && e.items[1] && e.items[1]->kind == ExprKind::Slice;
  const bool around = e.kind == ExprKind::Filter || e.kind == ExprKind::Test || sliced;
  return around && e.items[0] ? inside(*e.items[0]) : e;
}

bool is_name_of(const Expr& e, const Names& names) { return e.kind == ExprKind::Name && names.contains(e.name); }

/// message.content, message['content']
bool is_content_of(const Expr& e, const Names& messages) {
  if (e.kind == ExprKind::Attribute) return e.name == "content" && is_name_of(*e.items[0], messages);
  if (e.kind != ExprKind::Item || !e.items[1] || e.items[1]->kind != ExprKind::Constant) return false;
  const Text* key = e.items[1]->constant.as_text();
  return key && key->text == "content" && is_name_of(*e.items[0], messages);
}

/// What lists of messages are called: "messages", and what is assigned from it.
Names lists_of_messages(const Block& body) {
  Names names{"messages"};
  for (size_t before = 0; before != names.size();) {
    before = names.size();
    visit(body, [&](const Stmt& s) {
      if (s.kind == StmtKind::Set && s.target->kind == ExprKind::Name && is_name_of(inside(*s.exprs[0]), names))
        names.insert(s.target->name);
    });
  }
  return names;
}

Names names_of_messages(const Block& body) {
  const Names lists = lists_of_messages(body);
  Names names{"message", "msg", "m"};
  visit(body, [&](const Stmt& s) {
    if (s.kind == StmtKind::For && s.target->kind == ExprKind::Name && is_name_of(inside(*s.exprs[0]), lists))
      names.insert(s.target->name);
  });
  return names;
}

/// Parameters of macros that are given a content, and a variable of that name.
Names names_of_contents(const Block& body, const Names& messages) {
  Names names{"content"};
  const auto learn = [&](const MacroDefinition& macro, const CallArguments& call) {
    for (size_t i = 0; i < std::min(call.positional.size(), macro.parameters.size()); ++i)
      if (is_content_of(inside(*call.positional[i]), messages)) names.insert(macro.parameters[i]);
    for (const auto& [name, value] : call.named)
      if (is_content_of(inside(*value), messages)) names.insert(name);
  };
  visit(body, [&](const Stmt& definition) {
    if (!definition.macro || definition.macro->is_call_block) return;
    visit(body, [&](const Stmt& s) {
      visit_expressions(s.exprs, [&](const Expr& e) {
        if (e.kind == ExprKind::Call && is_name_of(*e.items[0], {definition.macro->name}))
          learn(*definition.macro, e.call);
      });
    });
  });
  return names;
}

}  // namespace

ContentUse content_use(const Block& body) {
  const Names messages = names_of_messages(body), contents = names_of_contents(body, messages);
  const auto is_content = [&](const Expr& e) { return is_content_of(e, messages) || is_name_of(e, contents); };
  static constexpr std::array kTests{"string", "iterable", "sequence", "mapping"};
  ContentUse use;
  visit(body, [&](const Stmt& s) {
    if (s.kind == StmtKind::For && is_content(inside(*s.exprs[0]))) use.is_looped_over = true;
    const bool written = s.kind == StmtKind::Print || s.kind == StmtKind::Set;
    visit_expressions(s.exprs, [&](const Expr& e) {
      const bool tested = e.kind == ExprKind::Test && std::ranges::find(kTests, e.name) != kTests.end();
      if (tested ? is_content(inside(*e.items[0])) : written && is_content(e)) use.is_text_too = true;
    });
  });
  return use;
}

}  // namespace kvcal::jinja
