#include "doctor/yaml.h"

#include <yaml.h>

#include <algorithm>
#include <map>
#include <new>
#include <string>

namespace kvcal {
namespace {

constexpr std::string_view kBlanks = " \t\r";

std::string_view without_end(std::string_view line) { return line.substr(0, line.find_last_not_of(kBlanks) + 1); }

/// Whether a place is in a quoted text, which may go on over lines. A quote opens one only where a value begins.
class Quotes {
 public:
  bool are_open() const { return quote_ != '\0'; }

  /// From the start of a line.
  void read(std::string_view line) {
    char last = '\n';  // but for blanks
    for (size_t i = 0; i < line.size(); ++i) {
      const char c = line[i];
      const bool is_blank = kBlanks.find(c) != kBlanks.npos;
      if (are_open()) {
        i += inside(line.substr(i));
      } else if ((c == '"' || c == '\'') && std::string_view("\n:-[{,").find(last) != std::string_view::npos) {
        quote_ = c;
      } else if (c == '#' && (i == 0 || kBlanks.find(line[i - 1]) != kBlanks.npos)) {
        return;
      }
      if (!is_blank) last = c;
    }
  }

 private:
  /// How many characters belong to the first one.
  size_t inside(std::string_view rest) {
    const bool is_pair = quote_ == '"' ? rest.front() == '\\' : rest.starts_with("''");
    if (!is_pair && rest.front() == quote_) quote_ = '\0';
    return is_pair ? 1 : 0;
  }

  char quote_ = '\0';
};

bool is_template_alone(std::string_view line) {
  const size_t begin = line.find("{{");
  return begin != line.npos && line.find_first_not_of(kBlanks) == begin && without_end(line).ends_with("}}");
}

/// Where the line's value begins with a template; npos where none does.
size_t templated_value(std::string_view line) {
  const size_t begin = line.find("{{");
  const std::string_view before = line.substr(0, begin), key = without_end(before);
  const bool is_value = key.ends_with(":") || key.find_first_not_of(" \t-") == key.npos;
  return begin != line.npos && !key.empty() && key.size() < before.size() && is_value ? begin : line.npos;
}

std::string with_quoted_value(std::string_view line, size_t begin) {
  std::string out = std::string(line.substr(0, begin)) + "'";
  const std::string_view value = line.substr(begin);
  for (const char c : without_end(value.substr(0, value.find(" #")))) out += c == '\'' ? "''" : std::string(1, c);
  return out + "'";
}

/// The indentation of a line behind which a block of text begins ("a: |-"); npos where none does.
size_t block_of(std::string_view line) {
  const std::string_view plain = without_end(line.substr(0, line.find(" #")));
  const size_t sign = plain.find_last_not_of("+-0123456789");
  if (sign == plain.npos || sign == 0 || plain[sign - 1] != ' ' || (plain[sign] != '|' && plain[sign] != '>'))
    return plain.npos;
  const size_t key = plain.find_first_not_of(" -");
  return key < sign ? key : plain.find_first_not_of(' ');
}

/// Lines that hold a template alone are left out, empty in their place; a value that begins with one is in quotes.
std::string without_templates(std::string_view text) {
  std::string out;
  Quotes quotes;
  size_t block = text.npos;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const bool is_alone = !quotes.are_open() && is_template_alone(line);
    const size_t indentation = line.find_first_not_of(kBlanks);
    if (block != text.npos && !is_alone && indentation != line.npos && indentation <= block) block = text.npos;
    Quotes before = quotes;
    const size_t begin = templated_value(line);
    before.read(line.substr(0, begin));
    if (block != text.npos) {
      if (!is_alone) out += line;
    } else if (!is_alone && begin != line.npos && !before.are_open()) {
      out += with_quoted_value(line, begin);
    } else if (!is_alone) {
      out += line;
      quotes.read(line);
      if (!quotes.are_open()) block = block_of(line);
    }
    out += '\n';
  }
  return out;
}

constexpr int kDeepest = 64;
constexpr size_t kMostKeys = 1024, kMostBytes = size_t{16} << 20, kMostTags = 32;
constexpr std::string_view kTag = "%TAG";

/// libyaml compares each one with all before it.
void refuse_many_tags(std::string_view text) {
  size_t n_tags = 0;
  for (size_t at = text.find(kTag); at != text.npos; at = text.find(kTag, at + 1))
    if (++n_tags > kMostTags)
      fail("line " + std::to_string(std::ranges::count(text.substr(0, at), '\n') + 1) + " is one %TAG too many");
}

/// As libyaml wants it: one byte of Latin-1 in a comment is no reason to refuse a file.
std::string with_valid_characters(std::string_view text) {
  const std::string quoted = Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
  return parse_json(quoted).get<std::string>();
}

class Reader {
 public:
  /// Of a text that outlives it.
  explicit Reader(std::string_view text) : text_(text) {
    if (yaml_parser_initialize(&parser_) == 0) throw std::bad_alloc();
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()), text.size());
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() {
    yaml_event_delete(&event_);
    yaml_parser_delete(&parser_);
  }

  std::vector<Json> documents() {
    std::vector<Json> all;
    while (next() != YAML_STREAM_END_EVENT) {
      if (event_.type != YAML_DOCUMENT_START_EVENT) continue;
      anchors_.clear();
      next();
      if (Json document = value(1); !document.is_null()) all.push_back(std::move(document));
    }
    return all;
  }

 private:
  [[noreturn]] static void refuse(size_t line, const std::string& what) {
    fail("line " + std::to_string(line + 1) + " " + what);
  }
  [[noreturn]] void refuse(const char* what) const { refuse(event_.start_mark.line, what); }

  yaml_event_type_t next() {
    yaml_event_delete(&event_);
    if (yaml_parser_parse(&parser_, &event_) != 0) return event_.type;
    if (parser_.error == YAML_MEMORY_ERROR) throw std::bad_alloc();
    refuse(line_of_problem(), std::string("is no YAML: ") + parser_.problem);
  }

  /// What is wrong with characters begins where their text does, and is noticed lines later; the end of the file is in
  /// no line.
  size_t line_of_problem() const {
    const auto n_lines = [](std::string_view text) { return static_cast<size_t>(std::ranges::count(text, '\n')); };
    if (parser_.error == YAML_READER_ERROR) return n_lines(text_.substr(0, parser_.problem_offset));
    const bool begins_before = parser_.error == YAML_SCANNER_ERROR && parser_.context != nullptr;
    const size_t line = begins_before ? parser_.context_mark.line : parser_.problem_mark.line;
    return std::min(line, std::max<size_t>(n_lines(text_), 1) - 1);
  }

  static std::string text_of(const yaml_char_t* name) {
    return name == nullptr ? "" : reinterpret_cast<const char*>(name);
  }
  std::string scalar() const {
    return {reinterpret_cast<const char*>(event_.data.scalar.value), event_.data.scalar.length};
  }

  void spend(size_t bytes) {
    if ((bytes_ += bytes) > kMostBytes) refuse("makes more of aliases than a file of containers would");
  }

  /// Counts a copy of a value, and refuses one that would be too deep here.
  void spend(const Json& value, int depth) {
    if (depth > kDeepest) refuse("is nested too deeply");
    spend(sizeof(Json) + (value.is_string() ? value.get_ref<const std::string&>().size() : 0));
    if (!value.is_structured()) return;
    for (const auto& item : value.items()) {
      spend(item.key().size());
      spend(item.value(), depth + 1);
    }
  }

  /// What the event is, or begins. Its anchor names it from there on.
  Json value(int depth) {
    if (depth > kDeepest) refuse("is nested too deeply");
    switch (event_.type) {
      case YAML_ALIAS_EVENT: {
        const auto found = anchors_.find(text_of(event_.data.alias.anchor));
        if (found == anchors_.end()) refuse("has an alias without its anchor");
        spend(found->second, depth);
        return found->second;
      }
      case YAML_SEQUENCE_START_EVENT: {
        const std::string anchor = text_of(event_.data.sequence_start.anchor);
        return keep(anchor, sequence(depth), depth);
      }
      case YAML_MAPPING_START_EVENT: {
        const std::string anchor = text_of(event_.data.mapping_start.anchor);
        return keep(anchor, mapping(depth), depth);
      }
      default: {
        const std::string anchor = text_of(event_.data.scalar.anchor);
        return keep(anchor, text(), depth);
      }
    }
  }

  Json keep(const std::string& anchor, Json value, int depth) {
    if (anchor.empty()) return value;
    spend(value, depth);
    return anchors_[anchor] = std::move(value);
  }

  Json text() {
    const std::string read = scalar();
    spend(sizeof(Json) + read.size());
    const bool is_plain = event_.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    return is_plain && (read.empty() || read == "~" || read == "null") ? Json() : Json(read);
  }

  Json sequence(int depth) {
    Json items = Json::array();
    while (next() != YAML_SEQUENCE_END_EVENT) items.push_back(value(depth + 1));
    return items;
  }

  Json mapping(int depth) {
    Json members = Json::object();
    while (next() != YAML_MAPPING_END_EVENT) {
      if (event_.type != YAML_SCALAR_EVENT) refuse("has a key that is no text");
      if (members.size() == kMostKeys) refuse("is one key too many");
      const std::string key = scalar();
      spend(sizeof(Json) + key.size());
      next();
      Json read = value(depth + 1);
      if (key == "<<")
        merge(members, read.is_array() ? std::move(read) : Json::array({std::move(read)}));
      else
        members[key] = std::move(read);
    }
    return members;
  }

  static void merge(Json& members, const Json& others) {
    for (const Json& other : others) {
      if (!other.is_object()) continue;
      for (const auto& item : other.items())
        if (members.size() < kMostKeys && !members.contains(item.key())) members[item.key()] = item.value();
    }
  }

  std::string_view text_;
  yaml_parser_t parser_{};
  yaml_event_t event_{};
  size_t bytes_ = 0;
  std::map<std::string, Json, std::less<>> anchors_;
};

}  // namespace

std::vector<Json> parse_yaml(std::string_view text) {
  refuse_many_tags(text);
  const std::string plain = without_templates(with_valid_characters(text));
  return Reader(plain).documents();
}

}  // namespace kvcal
