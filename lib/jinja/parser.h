// Template text to tree. The grammar is the reference's, with its precedences (unary minus binds before **, which
// groups from the left; ~ binds between + and *).
#pragma once

#include <set>
#include <string_view>

#include "jinja/ast.h"
#include "jinja/lexer.h"

namespace kvcal::jinja {

/// Throws Error "line N: ..." that names the construct.
Block parse_template(std::string_view source);

/// The expression part, on its own so that each half stays readable.
class ExpressionParser {
 public:
  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

 protected:
  ExprPtr parse_expression() { return parse_conditional(); }
  ExprPtr parse_or();
  /// Expressions with commas between them are a tuple; ends at an end of tag, ')' or the name `stop`.
  ExprPtr parse_tuple(bool with_conditional, std::string_view stop = "", bool in_parentheses = false);
  ExprPtr parse_primary();
  ExprPtr parse_filter(ExprPtr input);
  void parse_arguments(CallArguments& out);

  const Token& current() const { return tokens_[pos_]; }
  const Token& following() const { return tokens_[std::min(pos_ + 1, tokens_.size() - 1)]; }
  Token take();
  bool at_operator(std::string_view op) const { return current().kind == TokenKind::Operator && current().text == op; }
  bool at_name(std::string_view name) const { return current().kind == TokenKind::Name && current().text == name; }
  bool skip_operator(std::string_view op);
  bool skip_name(std::string_view name);
  void expect_operator(std::string_view op);
  std::string expect_identifier(std::string_view what);
  [[noreturn]] void fail_here(const std::string& message) const;
  std::string describe_current() const;

  ExprPtr make(ExprKind kind) const;

  std::set<std::string> used_names_;  // all names read so far; macros look for caller, varargs and kwargs
  /// Guards the parser's own stack against nesting; every recursive rule holds one.
  class Depth {
   public:
    explicit Depth(ExpressionParser& p);
    ~Depth() { --parser_.depth_; }

   private:
    ExpressionParser& parser_;
  };

 private:
  ExprPtr parse_conditional();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_compare();
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_unary(bool with_filter);
  ExprPtr parse_postfix(ExprPtr node);
  ExprPtr parse_filters_and_tests(ExprPtr node);
  ExprPtr parse_test(ExprPtr node);
  ExprPtr parse_subscript(ExprPtr node);
  ExprPtr parse_subscripted();
  ExprPtr parse_name();
  ExprPtr parse_dict();
  std::string parse_dotted_name();
  ExprPtr binary(const std::string& op, ExprPtr left, ExprPtr right);

  std::vector<Token> tokens_;
  size_t pos_ = 0;
  int depth_ = 0;
};

}  // namespace kvcal::jinja
