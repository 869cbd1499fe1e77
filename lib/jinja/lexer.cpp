#include "jinja/lexer.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/error.h"
#include "jinja/escapes.h"
#include "jinja/python_text.h"
#include "jinja/value.h"
#include "unicode/utf8.h"

namespace kvcal::jinja {
namespace {

constexpr size_t kMostDigits = 4300;  // of an integer; the reference takes no more
constexpr size_t kLargestTag = 5000;  // tokens; a chain of operators is a tree as deep as it is long

std::string with_plain_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
    } else {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

bool is_blank(std::string_view s) { return python::strip_source(s, python::Side::Left).empty(); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool starts_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (static_cast<unsigned char>(c) & 0x80);
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(with_plain_newlines(source)) {}

  std::vector<Token> run() {
    while (pos_ < source_.size()) read_root();
    add(TokenKind::End, "");
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(pos_); }
  bool at(std::string_view s) const { return rest().starts_with(s); }
  [[noreturn]] void fail_here(const std::string& message) const {
    fail("line " + std::to_string(line_) + ": " + message);
  }

  void add(TokenKind kind, std::string text) { tokens_.push_back({kind, line_, std::move(text)}); }

  static ptrdiff_t offset(size_t i) { return static_cast<ptrdiff_t>(i); }

  void advance(size_t n) {
    line_ += static_cast<int>(std::count(source_.begin() + offset(pos_), source_.begin() + offset(pos_ + n), '\n'));
    pos_ += n;
  }

  // White space that an end tag with '-' swallows.
  void skip_space() { advance(rest().size() - python::strip_source(rest(), python::Side::Left).size()); }

  // Behind an end tag: '-' swallows white space, otherwise a block or comment swallows one newline. Remembers whether
  // the next text begins a line, which lstrip_blocks asks.
  void finish_tag(size_t tag_size, bool minus, bool trim_newline) {
    const size_t begin = pos_;
    advance(tag_size);
    if (minus)
      skip_space();
    else if (trim_newline && at("\n"))
      advance(1);
    line_starting_ = pos_ > begin && source_[pos_ - 1] == '\n';
  }

  // Text before a tag, cut as the sign of the tag and lstrip_blocks ask for.
  void add_data(std::string_view text, char sign, bool lstrip) {
    const size_t newlines = text.size();
    std::string_view kept = text;
    if (sign == '-') {
      kept = python::strip_source(text, python::Side::Right);
    } else if (sign != '+' && lstrip) {
      const size_t line_begin = text.rfind('\n') + 1;  // 0 when there is none
      if ((line_begin > 0 || line_starting_) && line_begin < text.size() && is_blank(text.substr(line_begin)))
        kept = text.substr(0, line_begin);
    }
    if (!kept.empty()) add(TokenKind::Data, std::string(kept));
    advance(newlines);
  }

  size_t next_tag() const {
    for (size_t i = pos_; (i = source_.find('{', i)) != std::string::npos; ++i)
      if (i + 1 < source_.size() && (source_[i + 1] == '%' || source_[i + 1] == '{' || source_[i + 1] == '#')) return i;
    return std::string::npos;
  }

  char sign_at(size_t i) const {
    return i < source_.size() && (source_[i] == '-' || source_[i] == '+') ? source_[i] : '\0';
  }

  void read_root() {
    const size_t tag = next_tag();
    if (tag == std::string::npos) {
      add(TokenKind::Data, std::string(rest()));
      advance(rest().size());
      return;
    }
    const char kind = source_[tag + 1];
    const char sign = sign_at(tag + 2);
    add_data(std::string_view(source_).substr(pos_, tag - pos_), sign, kind != '{');
    if (kind == '%' && read_raw()) return;
    advance(sign ? 3 : 2);
    if (kind == '#') return skip_comment();
    read_tag(kind == '%');
  }

  void skip_comment() {
    const size_t end = source_.find("#}", pos_);
    if (end == std::string::npos) fail_here("missing end of comment '#}'");
    const char sign = end > pos_ ? sign_at(end - 1) : '\0';
    advance(end - pos_);
    finish_tag(2, sign == '-', sign != '+');
  }

  // Length of "{%- NAME -%}" at i, or 0; the signs come back.
  size_t match_bare_tag(size_t i, std::string_view name, char& left, char& right) const {
    const std::string_view s = source_;
    size_t p = i + 2;
    left = sign_at(p);
    if (left) ++p;
    const auto skip = [&] { p = s.size() - python::strip_source(s.substr(p), python::Side::Left).size(); };
    skip();
    if (!s.substr(p).starts_with(name)) return 0;
    p += name.size();
    skip();
    right = sign_at(p);
    if (right) ++p;
    return s.substr(p).starts_with("%}") ? p + 2 - i : 0;
  }

  bool read_raw() {
    char left = 0, right = 0;
    const size_t n = match_bare_tag(pos_, "raw", left, right);
    if (n == 0 || right == '+') return false;
    finish_tag(n, right == '-', false);
    for (size_t i = pos_; (i = source_.find("{%", i)) != std::string::npos; ++i) {
      const size_t end_size = match_bare_tag(i, "endraw", left, right);
      if (end_size == 0) continue;
      add_data(std::string_view(source_).substr(pos_, i - pos_), left, true);
      finish_tag(end_size, right == '-', right != '+');
      return true;
    }
    fail_here("missing end of raw directive");
  }

  void read_tag(bool block) {
    const std::string_view end = block ? "%}" : "}}";
    add(block ? TokenKind::BlockBegin : TokenKind::PrintBegin, "");
    size_t n_tokens = 0;
    std::string open;  // brackets that wait for their partner: "}}" may close two dicts
    for (;;) {
      skip_space();
      if (pos_ >= source_.size()) fail_here("missing end of tag '" + std::string(end) + "'");
      if (open.empty()) {
        const char sign = sign_at(pos_);
        const bool signed_end =
            sign && (block || sign == '-') && std::string_view(source_).substr(pos_ + 1).starts_with(end);
        if (signed_end || at(end)) {
          add(block ? TokenKind::BlockEnd : TokenKind::PrintEnd, std::string(end));
          return finish_tag(signed_end ? 3 : 2, signed_end && sign == '-', block && !(signed_end && sign == '+'));
        }
      }
      read_token(open);
      if (++n_tokens > kLargestTag) fail_here("a tag of more than " + std::to_string(kLargestTag) + " tokens");
    }
  }

  void read_token(std::string& open) {
    const char c = source_[pos_];
    if (is_digit(c)) return read_number();
    if (c == '"' || c == '\'') return read_string(c);
    if (starts_name(c)) {
      size_t end = pos_;
      while (end < source_.size() && (starts_name(source_[end]) || is_digit(source_[end]))) ++end;
      add(TokenKind::Name, source_.substr(pos_, end - pos_));
      return advance(end - pos_);
    }
    for (const char* op : {"//", "**", "==", "!=", ">=", "<="})
      if (at(op)) {
        add(TokenKind::Operator, op);
        return advance(2);
      }
    if (std::string_view("+-/*%~[](){}><=.:|,;").find(c) == std::string_view::npos)
      fail_here("unexpected character " + quoted(source_.substr(pos_, utf8_length(c))));
    balance(c, open);
    add(TokenKind::Operator, std::string(1, c));
    advance(1);
  }

  void balance(char c, std::string& open) const {
    if (c == '(') open += ')';
    if (c == '[') open += ']';
    if (c == '{') open += '}';
    if (c != ')' && c != ']' && c != '}') return;
    if (open.empty()) fail_here(std::string("unexpected '") + c + "'");
    if (open.back() != c) fail_here(std::string("unexpected '") + c + "', expected '" + open.back() + "'");
    open.pop_back();
  }

  void read_string(char quote) {
    size_t end = pos_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail_here("string literal without an end");
    const std::string_view inside = std::string_view(source_).substr(pos_ + 1, end - pos_ - 1);
    try {
      add(TokenKind::String, unescape_python(inside));
    } catch (const Error& e) {
      fail_here(e.what());
    }
    advance(end + 1 - pos_);
  }

  // Digits with underscores between them; returns the end.
  size_t digits_end(size_t i) const {
    while (i < source_.size() &&
           (is_digit(source_[i]) || (source_[i] == '_' && i + 1 < source_.size() && is_digit(source_[i + 1]))))
      ++i;
    return i;
  }

  void read_number() {
    const size_t begin = pos_;
    const char prefix =
        source_[begin] == '0' && begin + 1 < source_.size() ? static_cast<char>(source_[begin + 1] | 0x20) : ' ';
    if (prefix == 'x' || prefix == 'o' || prefix == 'b') return read_based(prefix == 'x' ? 16 : prefix == 'o' ? 8 : 2);
    size_t end = digits_end(begin);
    bool real = false;
    const auto digit_at = [&](size_t i) { return i < source_.size() && is_digit(source_[i]); };
    // "a.0.1" has integers behind its dots, not a fraction.
    const bool after_dot = begin > 0 && source_[begin - 1] == '.';
    if (!after_dot && end < source_.size() && source_[end] == '.' && digit_at(end + 1)) {
      end = digits_end(end + 1);
      real = true;
    }
    if (!after_dot && end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      const size_t sign = end + 1 < source_.size() && (source_[end + 1] == '+' || source_[end + 1] == '-') ? 1 : 0;
      if (digit_at(end + 1 + sign)) {
        end = digits_end(end + 1 + sign);
        real = true;
      }
    }
    std::string text = source_.substr(begin, end - begin);
    std::erase(text, '_');
    Token token{real ? TokenKind::Real : TokenKind::Integer, line_, text};
    if (!real && text.size() > kMostDigits)
      fail_here("an integer of " + std::to_string(text.size()) + " digits, at most " + std::to_string(kMostDigits));
    if (real) parse_real(text, token.real);
    tokens_.push_back(std::move(token));
    advance(end - begin);
  }

  void read_based(int base) {
    size_t end = pos_ + 2;
    while (end < source_.size() && (std::isxdigit(static_cast<unsigned char>(source_[end])) || source_[end] == '_'))
      ++end;
    std::string digits = source_.substr(pos_ + 2, end - pos_ - 2);
    std::erase(digits, '_');
    int64_t value = 0;
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    const std::string written = quoted(source_.substr(pos_, end - pos_));
    if (result.ec == std::errc::result_out_of_range) fail_here("number " + written + " does not fit 64 bits");
    if (result.ec != std::errc() || result.ptr != digits.data() + digits.size())
      fail_here("malformed number " + written);
    add(TokenKind::Integer, std::to_string(value));
    advance(end - pos_);
  }

  std::string source_;
  std::vector<Token> tokens_;
  size_t pos_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
};

}  // namespace

std::vector<Token> tokenize_template(std::string_view source) { return Lexer(source).run(); }

}  // namespace kvcal::jinja
