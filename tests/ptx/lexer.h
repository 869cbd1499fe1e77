// PTX text as words and signs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ptx {

/// A word (of letters, digits and _ $ % .) or one sign. An instruction with its modifiers is a word, so is %tid.x.
struct Token {
  std::string_view text;
  int line = 0;

  bool is(std::string_view other) const { return text == other; }
  bool is_word() const;
};

/// Without comments. The tokens point into the text.
std::vector<Token> tokens_of(std::string_view text);

/// Goes through tokens; every error names the line.
class Reader {
 public:
  Reader(const Token* begin, const Token* end) : at_(begin), end_(end) {}

  bool done() const { return at_ == end_; }
  const Token& peek() const;
  bool next_is(std::string_view text) const { return at_ != end_ && at_->is(text); }
  Token take();
  bool take_if(std::string_view text);
  void expect(std::string_view text);
  int line() const { return at_ == end_ ? 0 : at_->line; }
  const Token* position() const { return at_; }
  void go_to(const Token* position) { at_ = position; }

  /// The number at hand, perhaps with a sign.
  int64_t integer();

  [[noreturn]] void fail(const std::string& what) const;

 private:
  const Token *at_, *end_;
};

[[noreturn]] void fail_at(int line, const std::string& what);

}  // namespace ptx
