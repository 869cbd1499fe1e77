#include "doctor/yaml.h"

#include <yaml.h>

#include <algorithm>
#include <map>
#include <new>
#include <string>

namespace kvcal {
namespace {

constexpr int kDeepest = 64;
constexpr size_t kMostKeys = 1024, kMostBytes = size_t{16} << 20;

/// A line of a template's words alone becomes an empty one, and a value that begins with them a text in quotes.
std::string without_templates(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const size_t begin = line.find("{{"), end = line.find_last_not_of(" \t\r") + 1;
    const std::string_view before = line.substr(0, begin);
    const bool is_alone = before.find_first_not_of(" \t") == before.npos && line.substr(0, end).ends_with("}}");
    if (begin == line.npos || (!is_alone && !before.ends_with(": ") && !before.ends_with("- "))) {
      out += line;
    } else if (!is_alone) {
      out += std::string(before) + "'";
      for (const char c : line.substr(begin, std::min(line.find(" #", begin), end) - begin))
        out += c == '\'' ? "''" : std::string(1, c);
      out += "'";
    }
    out += '\n';
  }
  return out;
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
    const bool is_text = parser_.error != YAML_READER_ERROR;  // bytes that are none have no mark
    const std::string_view before = text_.substr(0, is_text ? 0 : parser_.problem_offset);
    refuse(is_text ? parser_.problem_mark.line : static_cast<size_t>(std::ranges::count(before, '\n')),
           std::string("is no YAML: ") + parser_.problem);
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
  const std::string plain = without_templates(text);
  return Reader(plain).documents();
}

}  // namespace kvcal
