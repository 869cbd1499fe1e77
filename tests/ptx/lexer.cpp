#include "ptx/lexer.h"

#include <cctype>
#include <charconv>

#include "ptx/types.h"

namespace ptx {
namespace {

bool in_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%' || c == '.';
}

}  // namespace

bool Token::is_word() const { return !text.empty() && in_word(text[0]); }

std::vector<Token> tokens_of(std::string_view text) {
  std::vector<Token> tokens;
  int line = 1;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '\n') ++line;
    if (std::isspace(static_cast<unsigned char>(c))) {
      ++i;
    } else if (text.substr(i, 2) == "//") {
      i = std::min(text.find('\n', i), text.size());
    } else if (c == '"') {
      const size_t end = std::min(text.find('"', i + 1), text.size() - 1) + 1;
      tokens.push_back({text.substr(i, end - i), line});
      i = end;
    } else {
      size_t end = i + 1;
      if (in_word(c))
        while (end < text.size() && in_word(text[end])) ++end;
      tokens.push_back({text.substr(i, end - i), line});
      i = end;
    }
  }
  return tokens;
}

void fail_at(int line, const std::string& what) { throw Error("line " + std::to_string(line) + ": " + what); }

void Reader::fail(const std::string& what) const { fail_at(done() ? 0 : at_->line, what); }

const Token& Reader::peek() const {
  if (done()) throw Error("the PTX ends in the middle of a statement");
  return *at_;
}

Token Reader::take() {
  const Token token = peek();
  ++at_;
  return token;
}

bool Reader::take_if(std::string_view text) {
  if (!next_is(text)) return false;
  ++at_;
  return true;
}

void Reader::expect(std::string_view text) {
  if (!take_if(text)) fail("'" + std::string(peek().text) + "' where '" + std::string(text) + "' is expected");
}

int64_t Reader::integer() {
  const bool negative = take_if("-");
  std::string_view digits = peek().text;
  int base = 10;
  if (digits.starts_with("0x")) {
    digits.remove_prefix(2);
    base = 16;
  }
  if (digits.ends_with("U")) digits.remove_suffix(1);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (digits.empty() || error != std::errc{} || end != digits.data() + digits.size())
    fail("'" + std::string(peek().text) + "' is no integer");
  ++at_;
  return static_cast<int64_t>(negative ? 0 - value : value);
}

}  // namespace ptx
