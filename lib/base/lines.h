// Text for people, as whole lines: whoever wrote the parts of a line, it stays one line and says nothing to a terminal
// or to a CI system that reads along.
#pragma once

#include <string>
#include <string_view>

namespace kvcal {

/// `text` with everything shown as an escape that is not seen as it is:
/// - bytes that are no UTF-8, control characters of ASCII (Cc: line breaks, tabs, ESC, DEL): "\x1b";
/// - control characters beyond (Cc: U+0080 to U+009F, which terminals obey as they do ESC), line and paragraph
///   separators (Zl, Zp), what steers the direction of text (U+061C, U+200E, U+202E, U+2066, ...), and all else that is
///   ignorable or a format without a glyph (most of Cf, zero-width spaces, fillers, tags, variation selectors):
///   "\u202e", "\u{e0041}";
/// - "##word[" and "##[", commands of GitHub Actions and Azure Pipelines anywhere in a line: "#\x23[".
/// Joiners (U+200C, U+200D) and variation selectors that follow a character outside ASCII, which many scripts and emoji
/// need, stay; so does all that has a glyph, spaces of other widths and private characters included.
std::string printable(std::string_view text);

/// JSON as dumped, with the same characters as escapes of JSON: the same document.
std::string printable_json(std::string_view json);

/// Lines of readable output. There is no other way into them than through printable(), so that a line break in a name
/// cannot begin a line of its own. A line that would begin with "::", a command of GitHub Actions, begins with "\x3a:".
class Lines {
 public:
  Lines() = default;
  explicit Lines(std::string_view line) { add(line); }

  /// Of a text that has lines of its own, ours or a model's answer: each of them. Tabs stay. One more or less line
  /// break at the end makes no difference.
  static Lines of_text(std::string_view text);

  /// A command of GitHub Actions: "::error file=F,line=3,title=T::message", with its escapes.
  struct Annotation {
    std::string_view level, file;  // of the file every character arrives, but no control character raw
    size_t line = 1;
    std::string_view title, message;
  };
  static Lines of_annotation(const Annotation& annotation);

  /// Appends a line, given without its line break.
  void add(std::string_view line);
  Lines& operator+=(const Lines& more);
  friend Lines operator+(Lines a, const Lines& b) { return a += b; }

  bool empty() const { return text_.empty(); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;  // each line with its line break
};

}  // namespace kvcal
