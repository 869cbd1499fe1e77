// A prompt file taken apart into records, block by block, so that no more of it than one record is held at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace kvcal {

class RecordSplitter {
 public:
  enum class Form {
    Lines,   // a record a line, which may be broken without harm to the others
    Values,  // JSON values with white space between them: one, or one a line
  };
  struct Record {
    std::string_view text;
    size_t n_bytes;  // of the record: more than `text` has where it is too large
    size_t line;     // its first
    size_t index;    // in its array, from 1; 0: in none
  };
  using Emit = std::function<void(const Record&)>;

  /// Whatever the form: where the first character is '[', records are the elements of arrays. Of records of more than
  /// max_bytes only the first bytes are kept.
  RecordSplitter(Form form, std::string name, size_t max_bytes, Emit emit);

  /// Throws Error with the line for what is no list of JSON values.
  void add(std::string_view block);
  void end();

 private:
  enum class At { Start, Line, Between, Value, Text, Escape, BehindElement };

  bool step(char c);
  bool step_value(char c);
  void step_text(char c);
  void begin_value(char c);
  void keep(char c);
  void finish();
  [[noreturn]] void fail_at_line(const std::string& what) const;

  Form form_;
  std::string name_;  // of the file
  size_t max_bytes_;
  Emit emit_;
  At at_ = At::Start;
  std::string text_;
  size_t n_bytes_ = 0, line_ = 1, first_line_ = 1, index_ = 0;
  size_t depth_ = 0;  // of brackets in the value
  bool in_array_ = false, after_comma_ = false;
};

}  // namespace kvcal
