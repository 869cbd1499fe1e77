#include "jinja/parser.h"

#include <algorithm>
#include <initializer_list>

#include "jinja/checks.h"
#include "jinja/names.h"

namespace kvcal::jinja {
namespace {

const std::vector<std::string> kTags{"if",   "for",   "set",        "macro", "call",     "filter",
                                     "with", "print", "generation", "break", "continue", "raw"};

class TemplateParser final : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Block parse() {
    Block body = parse_until({});
    if (current().kind != TokenKind::End) fail_here("unexpected tag " + describe_current());
    return body;
  }

 private:
  using Ends = std::initializer_list<std::string_view>;

  // Statements up to a tag named in `ends`, whose name is then the current token; or to the end of the template.
  Block parse_until(Ends ends) {
    const Depth guard(*this);
    Block body;
    for (;;) {
      if (current().kind == TokenKind::Data) {
        StmtPtr s = statement(StmtKind::Data);
        s->text = take().text;
        body.push_back(std::move(s));
      } else if (current().kind == TokenKind::PrintBegin) {
        StmtPtr s = statement(StmtKind::Print);
        take();
        s->exprs.push_back(parse_tuple(true));
        if (current().kind != TokenKind::PrintEnd) fail_here("expected '}}', found " + describe_current());
        take();
        body.push_back(std::move(s));
      } else if (current().kind == TokenKind::BlockBegin) {
        take();
        if (std::any_of(ends.begin(), ends.end(), [&](std::string_view e) { return at_name(e); })) return body;
        body.push_back(parse_tag());
        end_tag();
      } else {
        return body;
      }
    }
  }

  // The body of a block tag: ends the tag before it, and takes the name of the tag that ends it.
  Block parse_body(const char* owner, Ends ends) {
    const int line = current().line;
    skip_operator(":");
    end_tag();
    Block body = parse_until(ends);
    if (current().kind != TokenKind::Name)
      fail("line " + std::to_string(line) + ": {% " + owner + " %} has no {% " + std::string(*(ends.end() - 1)) +
           " %}");
    return body;
  }

  void end_tag() {
    if (current().kind != TokenKind::BlockEnd) fail_here("expected '%}', found " + describe_current());
    take();
  }

  StmtPtr statement(StmtKind kind) const {
    auto s = std::make_unique<Stmt>();
    s->kind = kind;
    s->line = current().line;
    return s;
  }

  StmtPtr parse_tag() {
    if (current().kind != TokenKind::Name) fail_here("expected a tag name, found " + describe_current());
    const std::string tag = current().text;
    StmtPtr s = statement(StmtKind::Data);
    take();
    if (tag == "if") return parse_if(std::move(s));
    if (tag == "for") return parse_for(std::move(s));
    if (tag == "set") return parse_set(std::move(s));
    if (tag == "macro") return parse_macro(std::move(s));
    if (tag == "call") return parse_call(std::move(s));
    if (tag == "filter") return parse_filter_block(std::move(s));
    if (tag == "with") return parse_with(std::move(s));
    if (tag == "print") {
      s->kind = StmtKind::Print;
      while (current().kind != TokenKind::BlockEnd) {
        if (!s->exprs.empty()) expect_operator(",");
        s->exprs.push_back(parse_expression());
      }
      return s;
    }
    if (tag == "generation") {
      s->kind = StmtKind::Generation;
      const int outer_loops = std::exchange(loops_, 0);  // it is a function of its own in the reference
      s->branches.push_back(parse_body("generation", {"endgeneration"}));
      loops_ = outer_loops;
      take();
      return s;
    }
    if (tag == "break" || tag == "continue") {
      s->kind = tag == "break" ? StmtKind::Break : StmtKind::Continue;
      if (loops_ == 0) fail_here("{% " + tag + " %} outside a loop");
      return s;
    }
    while_doing("line " + std::to_string(s->line), [&] { fail_unknown("or unsupported tag", tag, kTags); });
    return s;
  }

  StmtPtr parse_if(StmtPtr s) {
    s->kind = StmtKind::If;
    for (;;) {
      s->exprs.push_back(parse_tuple(false));
      s->branches.push_back(parse_body("if", {"elif", "else", "endif"}));
      if (skip_name("elif")) continue;
      if (skip_name("else")) s->branches.push_back(parse_body("if", {"endif"}));
      take();
      return s;
    }
  }

  // A name, names with commas or in parentheses, or with `namespaces` also "ns.attribute".
  ExprPtr parse_target(bool namespaces, std::string_view stop = "") {
    if (namespaces && current().kind == TokenKind::Name && following().kind == TokenKind::Operator &&
        following().text == ".") {
      ExprPtr e = make(ExprKind::Attribute);
      ExprPtr object = make(ExprKind::Name);
      object->name = take().text;
      take();
      e->name = expect_identifier("an attribute name after '.'");
      e->items.push_back(std::move(object));
      return e;
    }
    ExprPtr tuple = make(ExprKind::Tuple);
    bool comma = false;
    while (current().kind == TokenKind::Name || at_operator("(")) {
      if (!stop.empty() && at_name(stop)) break;
      if (skip_operator("(")) {
        tuple->items.push_back(parse_target(false));
        expect_operator(")");
      } else {
        ExprPtr e = make(ExprKind::Name);
        e->name = take().text;
        for (const char* reserved : {"true", "false", "none", "True", "False", "None"})
          if (e->name == reserved) fail_here("cannot assign to '" + e->name + "'");
        tuple->items.push_back(std::move(e));
      }
      if (!skip_operator(",")) break;
      comma = true;
    }
    if (tuple->items.empty()) fail_here("expected a name to assign to, found " + describe_current());
    return comma ? std::move(tuple) : std::move(tuple->items[0]);
  }

  StmtPtr parse_for(StmtPtr s) {
    s->kind = StmtKind::For;
    s->target = parse_target(false, "in");
    if (!skip_name("in")) fail_here("expected 'in', found " + describe_current());
    s->exprs.push_back(parse_tuple(false, "recursive"));
    if (skip_name("if")) s->exprs.push_back(parse_expression());
    s->recursive = skip_name("recursive");
    ++loops_;
    s->branches.push_back(parse_body("for", {"else", "endfor"}));
    // A recursive loop is a function in the reference, which its else cannot leave.
    const int outer_loops = s->recursive ? std::exchange(loops_, 0) - 1 : --loops_;
    if (skip_name("else")) s->branches.push_back(parse_body("for", {"endfor"}));
    loops_ = outer_loops;
    take();
    return s;
  }

  StmtPtr parse_set(StmtPtr s) {
    s->target = parse_target(true);
    if (skip_operator("=")) {
      s->kind = StmtKind::Set;
      s->exprs.push_back(parse_tuple(true));
      return s;
    }
    s->kind = StmtKind::SetBlock;
    while (skip_operator("|")) s->filters.push_back(parse_filter(nullptr));
    s->branches.push_back(parse_body("set", {"endset"}));
    take();
    return s;
  }

  StmtPtr parse_with(StmtPtr s) {
    s->kind = StmtKind::With;
    while (current().kind != TokenKind::BlockEnd) {
      if (!s->targets.empty()) expect_operator(",");
      s->targets.push_back(parse_target(false));
      expect_operator("=");
      s->exprs.push_back(parse_expression());
    }
    s->branches.push_back(parse_body("with", {"endwith"}));
    take();
    return s;
  }

  void parse_signature(MacroDefinition& macro) {
    expect_operator("(");
    while (!at_operator(")")) {
      if (!macro.parameters.empty()) expect_operator(",");
      macro.parameters.push_back(expect_identifier("a parameter name"));
      if (skip_operator("="))
        macro.defaults.push_back(parse_expression());
      else if (!macro.defaults.empty())
        fail_here("a parameter without a default after one that has one");
    }
    expect_operator(")");
  }

  // The body of a macro or call block. Whether it uses the three magic names decides what it accepts.
  void parse_macro_body(MacroDefinition& macro, const char* owner, const char* end) {
    std::set<std::string> outer = std::move(used_names_);
    used_names_.clear();
    const int outer_loops = std::exchange(loops_, 0);
    macro.body = parse_body(owner, {end});
    take();
    loops_ = outer_loops;
    macro.uses_caller = used_names_.count("caller") > 0;
    // A parameter of that name is an ordinary one.
    const auto uses = [&](const char* name) {
      return used_names_.count(name) > 0 &&
             std::find(macro.parameters.begin(), macro.parameters.end(), name) == macro.parameters.end();
    };
    macro.uses_varargs = uses("varargs");
    macro.uses_kwargs = uses("kwargs");
    used_names_.merge(outer);
  }

  StmtPtr parse_macro(StmtPtr s) {
    s->kind = StmtKind::Macro;
    s->macro = std::make_shared<MacroDefinition>();
    s->macro->name = expect_identifier("a macro name");
    parse_signature(*s->macro);
    parse_macro_body(*s->macro, "macro", "endmacro");
    return s;
  }

  StmtPtr parse_call(StmtPtr s) {
    s->kind = StmtKind::CallBlock;
    s->macro = std::make_shared<MacroDefinition>();
    s->macro->name = "caller";
    s->macro->is_call_block = true;
    if (at_operator("(")) parse_signature(*s->macro);
    s->exprs.push_back(parse_expression());
    if (s->exprs[0]->kind != ExprKind::Call) fail_here("{% call %} without a call");
    parse_macro_body(*s->macro, "call", "endcall");
    return s;
  }

  StmtPtr parse_filter_block(StmtPtr s) {
    s->kind = StmtKind::Filter;
    do s->filters.push_back(parse_filter(nullptr));
    while (skip_operator("|"));
    s->branches.push_back(parse_body("filter", {"endfilter"}));
    take();
    return s;
  }

  int loops_ = 0;
};

}  // namespace

Block parse_template(std::string_view source) try {
  Block body = TemplateParser(tokenize_template(source)).parse();
  check_template(body);
  hide_names_assigned_later(body);
  return body;
} catch (const Error& e) {
  fail(printable(e.what(), kLongestMessage));
}

}  // namespace kvcal::jinja
