// Standard output and standard error: whatever the program prints goes through here, as lines (base/lines.h).
#pragma once

#include <initializer_list>
#include <sstream>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/lines.h"

namespace kvcal {

/// How wide what is printed may be: COLUMNS where that is set, else of the terminal, 80 where there is none. At least
/// 40.
int output_columns();

/// To standard output, which holds results: as it is.
void write_lines(const Lines& lines);

/// As JSON, indented by `indent`, -1: in one line. Names may come from untrusted files: what is no UTF-8 is replaced,
/// what printable() would not leave as it is becomes an escape of JSON.
void write_json(const Json& json, int indent = 2);
/// A document that is JSON already.
void write_json_text(std::string_view json);

/// The bytes of a file that was asked for on standard output (-o -), as they would be in the file.
void write_bytes(std::string_view file);

/// What is in the buffer. Throws Error where something could not be written.
void flush_output();

/// To standard error, in one write: lines of several processes that share a pipe or a file opened for appending do not
/// mix. A pipe guarantees that for up to PIPE_BUF bytes (4,096 on Linux) at a time; of more, several plan lines or an
/// error with a long list, another process may write in between. Where standard error is closed, full or lost, the text
/// is lost and the program goes on.
void say_lines(const Lines& lines) noexcept;

/// Sentences and tables of answers: on a terminal, or where COLUMNS is set, with long lines broken between words, and
/// in color (paint.h).
void write_result(const Lines& lines);
void say_result(const Lines& lines);

/// The same for what steers a terminal or is JSON: our own text.
void say_raw(std::string_view text) noexcept;

/// "kvcal: error: FILE: ..." from a signal handler: what fits PIPE_BUF, in one write. Where nobody reads for a second,
/// nothing, so that a full pipe does not keep the program from ending. Async-signal-safe.
void say_in_signal_handler(std::initializer_list<std::string_view> parts) noexcept;

/// The parts one after the other, numbers as a stream writes them.
template <class... Parts>
std::string line_of(const Parts&... parts) {
  std::ostringstream line;
  ((line << parts), ...);
  return line.str();
}

/// A sentence on standard output, or on standard error.
template <class... Parts>
void write_line(const Parts&... parts) {
  write_result(Lines(line_of(parts...)));
}
template <class... Parts>
void say(const Parts&... parts) {
  say_lines(Lines(line_of(parts...)));
}

}  // namespace kvcal
