#include "prompts/record_splitter.h"

#include <utility>

#include "base/error.h"

namespace kvcal {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool opens(char c) { return c == '{' || c == '['; }
bool closes(char c) { return c == '}' || c == ']'; }

}  // namespace

RecordSplitter::RecordSplitter(Form form, std::string name, size_t max_bytes, Emit emit)
    : form_(form), name_(std::move(name)), max_bytes_(max_bytes), emit_(std::move(emit)) {}

void RecordSplitter::add(std::string_view block) {
  for (size_t i = 0; i < block.size(); ++i) {
    while (!step(block[i])) {
    }
    line_ += block[i] == '\n' ? 1 : 0;
  }
}

void RecordSplitter::end() {
  if (at_ == At::Line) finish();
  if (at_ == At::Value && depth_ == 0) finish();  // a number or word
  if (at_ == At::Value || at_ == At::Text || at_ == At::Escape || in_array_)
    fail_at_line("the file ends inside " +
                 (in_array_ ? "an array" : "the value that begins at line " + std::to_string(first_line_)) +
                 "; is it complete?");
}

/// Whether the character is done with; else it is looked at again, from the new state.
bool RecordSplitter::step(char c) {
  switch (at_) {
    case At::Start:
      // A byte order mark is left to the first record.
      if (is_blank(c) || c == '\xEF' || c == '\xBB' || c == '\xBF') return true;
      at_ = form_ == Form::Values || c == '[' ? At::Between : At::Line;
      first_line_ = line_;
      return false;
    case At::Line:
      if (c == '\n') {
        finish();
        first_line_ = line_ + 1;
      } else {
        keep(c);
      }
      return true;
    case At::Between:
      if (!is_blank(c)) begin_value(c);
      return true;
    case At::BehindElement:
      if (is_blank(c)) return true;
      if (c != ',' && c != ']') fail_at_line("expected ',' or ']' after record " + std::to_string(index_));
      at_ = At::Between;
      after_comma_ = c == ',';
      in_array_ = c == ',';
      return true;
    case At::Value:
      return step_value(c);
    case At::Text:
      step_text(c);
      return true;
    case At::Escape:
      keep(c);
      at_ = At::Text;
      return true;
  }
  return true;
}

bool RecordSplitter::step_value(char c) {
  if (depth_ == 0 && (is_blank(c) || c == ',' || closes(c))) {
    finish();
    return false;
  }
  keep(c);
  if (c == '"') at_ = At::Text;
  if (opens(c)) ++depth_;
  if (closes(c) && --depth_ == 0) finish();
  return true;
}

void RecordSplitter::step_text(char c) {
  // Raw line breaks end no string of JSON: without this a quote that is missing would take the rest of the file.
  if (c == '\n') fail_at_line("a text has no closing quote in its line");
  keep(c);
  if (c == '\\') at_ = At::Escape;
  if (c != '"') return;
  at_ = At::Value;
  if (depth_ == 0) finish();
}

void RecordSplitter::begin_value(char c) {
  if (c == '[' && !in_array_) {
    in_array_ = true;
    after_comma_ = false;
    return;
  }
  if (c == ']' && in_array_ && !after_comma_) {
    in_array_ = false;
    return;
  }
  if (closes(c) || c == ',') fail_at_line(std::string("expected a record, found '") + c + "'");
  index_ += in_array_ ? 1 : 0;
  first_line_ = line_;
  depth_ = opens(c) ? 1 : 0;
  at_ = c == '"' ? At::Text : At::Value;
  keep(c);
}

void RecordSplitter::keep(char c) {
  if (++n_bytes_ <= max_bytes_) text_ += c;
}

void RecordSplitter::finish() {
  const bool line = at_ == At::Line;
  if (!line) at_ = in_array_ ? At::BehindElement : At::Between;
  const size_t n_bytes = std::exchange(n_bytes_, 0);
  if (!line || text_.find_first_not_of(" \t\r") != std::string::npos)
    emit_({text_, n_bytes, first_line_, in_array_ ? index_ : 0});
  text_.clear();
}

void RecordSplitter::fail_at_line(const std::string& what) const {
  fail(name_ + ": not valid JSON at line " + std::to_string(line_) + ": " + what);
}

}  // namespace kvcal
