#include <algorithm>

#include "jinja/parser.h"

namespace kvcal::jinja {
namespace {

constexpr int kDeepestExpression = 150;  // each level is about twelve calls of this parser

}  // namespace

ExpressionParser::Depth::Depth(ExpressionParser& p) : parser_(p) {
  if (++p.depth_ > kDeepestExpression) {
    --p.depth_;
    p.fail_here("nested deeper than " + std::to_string(kDeepestExpression) + " levels");
  }
}

Token ExpressionParser::take() {
  Token t = tokens_[pos_];
  if (pos_ + 1 < tokens_.size()) ++pos_;
  return t;
}

bool ExpressionParser::skip_operator(std::string_view op) {
  if (!at_operator(op)) return false;
  take();
  return true;
}

bool ExpressionParser::skip_name(std::string_view name) {
  if (!at_name(name)) return false;
  take();
  return true;
}

void ExpressionParser::expect_operator(std::string_view op) {
  if (!skip_operator(op)) fail_here("expected '" + std::string(op) + "', found " + describe_current());
}

std::string ExpressionParser::expect_identifier(std::string_view what) {
  if (current().kind != TokenKind::Name) fail_here("expected " + std::string(what) + ", found " + describe_current());
  return take().text;
}

void ExpressionParser::fail_here(const std::string& message) const {
  fail("line " + std::to_string(current().line) + ": " + message);
}

std::string ExpressionParser::describe_current() const {
  const Token& t = current();
  switch (t.kind) {
    case TokenKind::End:
      return "the end of the template";
    case TokenKind::BlockEnd:
    case TokenKind::PrintEnd:
      return "the end of the tag";
    case TokenKind::String:
      return "string " + quoted(t.text);
    default:
      return quoted(t.text);
  }
}

ExprPtr ExpressionParser::make(ExprKind kind) const {
  auto e = std::make_unique<Expr>();
  e->kind = kind;
  e->line = current().line;
  return e;
}

ExprPtr ExpressionParser::binary(const std::string& op, ExprPtr left, ExprPtr right) {
  ExprPtr e = make(ExprKind::Binary);
  e->line = left->line;
  e->name = op;
  e->items.push_back(std::move(left));
  e->items.push_back(std::move(right));
  return e;
}

ExprPtr ExpressionParser::parse_conditional() {
  const Depth guard(*this);
  ExprPtr value = parse_or();
  while (at_name("if")) {
    ExprPtr e = make(ExprKind::Conditional);
    take();
    e->items.push_back(parse_or());
    e->items.push_back(std::move(value));
    if (skip_name("else")) e->items.push_back(parse_conditional());
    value = std::move(e);
  }
  return value;
}

ExprPtr ExpressionParser::parse_or() {
  ExprPtr left = parse_and();
  while (at_name("or")) {
    ExprPtr e = make(ExprKind::Or);
    take();
    e->items.push_back(std::move(left));
    e->items.push_back(parse_and());
    left = std::move(e);
  }
  return left;
}

ExprPtr ExpressionParser::parse_and() {
  ExprPtr left = parse_not();
  while (at_name("and")) {
    ExprPtr e = make(ExprKind::And);
    take();
    e->items.push_back(std::move(left));
    e->items.push_back(parse_not());
    left = std::move(e);
  }
  return left;
}

ExprPtr ExpressionParser::parse_not() {
  if (!at_name("not")) return parse_compare();
  const Depth guard(*this);
  ExprPtr e = make(ExprKind::Unary);
  e->name = take().text;
  e->items.push_back(parse_not());
  return e;
}

ExprPtr ExpressionParser::parse_compare() {
  ExprPtr first = parse_sum();
  ExprPtr e = make(ExprKind::Compare);
  e->line = first->line;
  e->items.push_back(std::move(first));
  for (;;) {
    const Token& t = current();
    const bool symbol = t.kind == TokenKind::Operator && (t.text == "==" || t.text == "!=" || t.text == "<" ||
                                                          t.text == "<=" || t.text == ">" || t.text == ">=");
    if (symbol || at_name("in")) {
      e->ops.push_back(take().text);
    } else if (at_name("not") && following().kind == TokenKind::Name && following().text == "in") {
      take();
      take();
      e->ops.push_back("not in");
    } else {
      break;
    }
    e->items.push_back(parse_sum());
  }
  return e->ops.empty() ? std::move(e->items[0]) : std::move(e);
}

ExprPtr ExpressionParser::parse_sum() {
  ExprPtr left = parse_concat();
  while (at_operator("+") || at_operator("-")) {
    const std::string op = take().text;
    left = binary(op, std::move(left), parse_concat());
  }
  return left;
}

ExprPtr ExpressionParser::parse_concat() {
  ExprPtr left = parse_product();
  while (skip_operator("~")) left = binary("~", std::move(left), parse_product());
  return left;
}

ExprPtr ExpressionParser::parse_product() {
  ExprPtr left = parse_power();
  while (at_operator("*") || at_operator("/") || at_operator("//") || at_operator("%")) {
    const std::string op = take().text;
    left = binary(op, std::move(left), parse_power());
  }
  return left;
}

ExprPtr ExpressionParser::parse_power() {
  ExprPtr left = parse_unary(true);
  while (skip_operator("**")) left = binary("**", std::move(left), parse_unary(true));
  return left;
}

ExprPtr ExpressionParser::parse_unary(bool with_filter) {
  const Depth guard(*this);
  ExprPtr node;
  if (at_operator("-") || at_operator("+")) {
    node = make(ExprKind::Unary);
    node->name = take().text;
    node->items.push_back(parse_unary(false));
  } else {
    node = parse_primary();
  }
  node = parse_postfix(std::move(node));
  return with_filter ? parse_filters_and_tests(std::move(node)) : std::move(node);
}

ExprPtr ExpressionParser::parse_postfix(ExprPtr node) {
  for (;;) {
    if (at_operator(".") || at_operator("[")) {
      node = parse_subscript(std::move(node));
    } else if (at_operator("(")) {
      ExprPtr e = make(ExprKind::Call);
      e->items.push_back(std::move(node));
      parse_arguments(e->call);
      node = std::move(e);
    } else {
      return node;
    }
  }
}

ExprPtr ExpressionParser::parse_filters_and_tests(ExprPtr node) {
  for (;;) {
    if (skip_operator("|")) {
      node = parse_filter(std::move(node));
    } else if (at_name("is")) {
      node = parse_test(std::move(node));
    } else if (at_operator("(")) {
      node = parse_postfix(std::move(node));
    } else {
      return node;
    }
  }
}

std::string ExpressionParser::parse_dotted_name() {
  std::string name = expect_identifier("a name");
  while (skip_operator(".")) name += "." + expect_identifier("a name");
  return name;
}

ExprPtr ExpressionParser::parse_filter(ExprPtr input) {
  ExprPtr e = make(ExprKind::Filter);
  e->name = parse_dotted_name();
  e->items.push_back(std::move(input));
  if (at_operator("(")) parse_arguments(e->call);
  return e;
}

ExprPtr ExpressionParser::parse_test(ExprPtr node) {
  take();  // is
  ExprPtr negation;
  if (at_name("not")) {
    negation = make(ExprKind::Unary);
    negation->name = take().text;
  }
  ExprPtr e = make(ExprKind::Test);
  e->name = parse_dotted_name();
  e->items.push_back(std::move(node));
  const TokenKind k = current().kind;
  const bool starts_value = k == TokenKind::String || k == TokenKind::Integer || k == TokenKind::Real ||
                            at_operator("[") || at_operator("{") ||
                            (k == TokenKind::Name && !at_name("else") && !at_name("or") && !at_name("and"));
  if (at_operator("(")) {
    parse_arguments(e->call);
  } else if (starts_value) {
    if (at_name("is")) fail_here("tests cannot be chained with 'is'");
    e->call.positional.push_back(parse_postfix(parse_primary()));
  }
  if (!negation) return e;
  negation->items.push_back(std::move(e));
  return negation;
}

void ExpressionParser::parse_arguments(CallArguments& out) {
  expect_operator("(");
  bool first = true;
  while (!at_operator(")")) {
    if (!first) {
      expect_operator(",");
      if (at_operator(")")) break;
    }
    first = false;
    if (skip_operator("**")) {
      if (out.double_star) fail_here("a second ** argument");
      out.double_star = parse_expression();
    } else if (skip_operator("*")) {
      if (out.star) fail_here("a second * argument");
      out.star = parse_expression();
    } else if (current().kind == TokenKind::Name && following().kind == TokenKind::Operator &&
               following().text == "=") {
      std::string name = take().text;
      for (const auto& [given, value] : out.named)
        if (given == name) fail_here("argument '" + name + "' is given twice");
      take();
      out.named.emplace_back(std::move(name), parse_expression());
    } else {
      if (!out.named.empty() || out.star || out.double_star) fail_here("a positional argument after a named one");
      out.positional.push_back(parse_expression());
    }
  }
  expect_operator(")");
}

ExprPtr ExpressionParser::parse_subscript(ExprPtr node) {
  if (skip_operator(".")) {
    if (current().kind == TokenKind::Integer) {
      ExprPtr e = make(ExprKind::Item);
      ExprPtr index = make(ExprKind::Constant);
      index->constant = Value::integer_of_digits(nullptr, take().text);
      e->items.push_back(std::move(node));
      e->items.push_back(std::move(index));
      return e;
    }
    ExprPtr e = make(ExprKind::Attribute);
    e->name = expect_identifier("an attribute name after '.'");
    e->items.push_back(std::move(node));
    return e;
  }
  ExprPtr e = make(ExprKind::Item);
  expect_operator("[");
  std::vector<ExprPtr> parts;
  while (!at_operator("]")) {
    if (!parts.empty()) expect_operator(",");
    parts.push_back(parse_subscripted());
  }
  if (parts.empty()) fail_here("expected an expression in []");
  expect_operator("]");
  e->items.push_back(std::move(node));
  if (parts.size() == 1) {
    e->items.push_back(std::move(parts[0]));
  } else {
    ExprPtr tuple = make(ExprKind::Tuple);
    tuple->items = std::move(parts);
    e->items.push_back(std::move(tuple));
  }
  return e;
}

ExprPtr ExpressionParser::parse_subscripted() {
  ExprPtr slice = make(ExprKind::Slice);
  const auto at_end = [&] { return at_operator("]") || at_operator(","); };
  ExprPtr start;
  if (!at_operator(":")) {
    start = parse_expression();
    if (!at_operator(":")) return start;
  }
  take();
  slice->items.push_back(std::move(start));
  slice->items.push_back(at_operator(":") || at_end() ? nullptr : parse_expression());
  slice->items.push_back(skip_operator(":") && !at_end() ? parse_expression() : nullptr);
  return slice;
}

ExprPtr ExpressionParser::parse_tuple(bool with_conditional, std::string_view stop, bool in_parentheses) {
  const auto at_end = [&] {
    return current().kind == TokenKind::PrintEnd || current().kind == TokenKind::BlockEnd || at_operator(")") ||
           (!stop.empty() && at_name(stop));
  };
  ExprPtr tuple = make(ExprKind::Tuple);
  bool comma = false;
  while (!at_end()) {
    tuple->items.push_back(with_conditional ? parse_expression() : parse_or());
    if (!skip_operator(",")) break;
    comma = true;
  }
  if (comma || (tuple->items.empty() && in_parentheses)) return tuple;
  if (tuple->items.empty()) fail_here("expected an expression, found " + describe_current());
  return std::move(tuple->items[0]);
}

ExprPtr ExpressionParser::parse_name() {
  ExprPtr e = make(ExprKind::Constant);
  const std::string name = take().text;
  if (name == "true" || name == "True" || name == "false" || name == "False") {
    e->constant = Value::boolean(name[0] == 't' || name[0] == 'T');
  } else if (name == "none" || name == "None") {
    e->constant = Value::none();
  } else {
    e->kind = ExprKind::Name;
    e->name = name;
    used_names_.insert(name);
  }
  return e;
}

ExprPtr ExpressionParser::parse_primary() {
  const Depth guard(*this);
  const Token& t = current();
  if (t.kind == TokenKind::Name) return parse_name();
  ExprPtr e = make(ExprKind::Constant);
  if (t.kind == TokenKind::String) {
    std::string text = take().text;
    while (current().kind == TokenKind::String) text += take().text;  // neighbors are one literal
    e->constant = Value::text(nullptr, text);
    return e;
  }
  if (t.kind == TokenKind::Integer) return e->constant = Value::integer_of_digits(nullptr, take().text), std::move(e);
  if (t.kind == TokenKind::Real) return e->constant = Value::real(take().real), std::move(e);
  if (skip_operator("(")) {
    ExprPtr inside = parse_tuple(true, "", true);
    expect_operator(")");
    return inside;
  }
  if (skip_operator("[")) {
    e->kind = ExprKind::List;
    while (!at_operator("]")) {
      if (!e->items.empty()) {
        expect_operator(",");
        if (at_operator("]")) break;
      }
      e->items.push_back(parse_expression());
    }
    expect_operator("]");
    return e;
  }
  if (at_operator("{")) return parse_dict();
  fail_here("expected an expression, found " + describe_current());
}

ExprPtr ExpressionParser::parse_dict() {
  ExprPtr e = make(ExprKind::DictLiteral);
  expect_operator("{");
  while (!at_operator("}")) {
    if (!e->items.empty()) {
      expect_operator(",");
      if (at_operator("}")) break;
    }
    e->items.push_back(parse_expression());
    expect_operator(":");
    e->items.push_back(parse_expression());
  }
  expect_operator("}");
  return e;
}

}  // namespace kvcal::jinja
