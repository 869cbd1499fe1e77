// A template cut into literal text and the tokens inside its tags, with white space control already applied
// (trim_blocks and lstrip_blocks on, as chat templates are rendered).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvcal::jinja {

enum class TokenKind { Data, BlockBegin, BlockEnd, PrintBegin, PrintEnd, Name, String, Integer, Real, Operator, End };

struct Token {
  TokenKind kind;
  int line;
  std::string text;  // Data, Name, Operator: as written; String: its value; Integer: its decimal digits
  double real = 0;
};

/// Throws Error "line N: ..." for what cannot be tokenized. The last token is End.
std::vector<Token> tokenize_template(std::string_view source);

}  // namespace kvcal::jinja
