#include "doctor/yaml.h"

#include <algorithm>
#include <map>
#include <string>

namespace kvcal {
namespace {

constexpr int kDeepest = 64;
constexpr size_t kMostKeys = 1024, kMostBytes = size_t{16} << 20;

struct Line {
  size_t number = 0, indent = 0;
  std::string_view text;  // behind the indent; empty for a blank line or one with a comment or a template's word alone
  std::string_view raw;
};

std::string_view trimmed(std::string_view text) {
  const size_t from = std::min(text.size(), text.find_first_not_of(" \t\r"));
  const size_t to = text.find_last_not_of(" \t\r");
  return to == text.npos ? std::string_view() : text.substr(from, to + 1 - from);
}

bool is_space(char c) { return c == ' ' || c == '\t'; }
bool is_item(std::string_view text) { return text == "-" || text.starts_with("- "); }

/// Behind the closing quote of what begins with one; npos where it is open. A quote is escaped by \ or, of '', doubled.
size_t end_of_quoted(std::string_view text, size_t from) {
  const char quote = text[from];
  for (size_t at = from + 1; at < text.size(); ++at) {
    if (quote == '"' && text[at] == '\\')
      ++at;
    else if (text[at] == quote && quote == '\'' && at + 1 < text.size() && text[at + 1] == quote)
      ++at;
    else if (text[at] == quote)
      return at + 1;
  }
  return text.npos;
}

std::string_view without_comment(std::string_view text) {
  for (size_t at = 0; at < text.size(); ++at) {
    const bool begins = at == 0 || is_space(text[at - 1]) || std::string_view("[{,:").find(text[at - 1]) != text.npos;
    if (begins && (text[at] == '"' || text[at] == '\'')) {
      const size_t end = end_of_quoted(text, at);
      if (end == text.npos) return text;
      at = end - 1;
    } else if (text[at] == '#' && (at == 0 || is_space(text[at - 1]))) {
      return trimmed(text.substr(0, at));
    }
  }
  return text;
}

/// Where the ':' behind a key is; npos for what is no key.
size_t colon_of_key(std::string_view text) {
  size_t at = 0;
  if (text.empty() || std::string_view("[{|>*!%@`?").find(text[0]) != text.npos) return text.npos;
  if (text[0] == '"' || text[0] == '\'') at = end_of_quoted(text, 0);
  for (; at < text.size(); ++at)
    if (text[at] == ':' && (at + 1 == text.size() || is_space(text[at + 1]))) return at == 0 ? text.npos : at;
  return text.npos;
}

std::string unquoted(std::string_view text) {
  const char quote = text.front();
  std::string out;
  for (size_t at = 1; at + 1 < text.size(); ++at) {
    char c = text[at];
    if (quote == '\'' && c == quote)
      ++at;
    else if (quote == '"' && c == '\\')
      c = text[++at] == 'n' ? '\n' : text[at] == 't' ? '\t' : text[at];
    out += c;
  }
  return out;
}

Json scalar(std::string_view text) {
  return text.empty() || text == "~" || text == "null" ? Json() : Json(std::string(text));
}

class Reader {
 public:
  explicit Reader(std::string_view text) {
    for (size_t number = 1; !text.empty(); ++number) {
      const size_t end = std::min(text.find('\n'), text.size());
      const std::string_view raw = text.substr(0, end), inner = trimmed(raw);
      const bool is_template = inner.starts_with("{{") && inner.ends_with("}}");
      const bool left_out = inner.starts_with("#") || is_template;
      lines_.push_back(
          {number, std::min(raw.find_first_not_of(" \t"), raw.size()), left_out ? std::string_view() : inner, raw});
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }

  std::vector<Json> documents() {
    std::vector<Json> all;
    while (skip_blank()) {
      const std::string_view text = line().text;
      if (line().indent == 0 && (text == "---" || text == "..." || text.starts_with("%"))) {
        ++at_;
        continue;
      }
      if (line().indent == 0 && text.starts_with("--- ")) replace(4);
      anchors_.clear();
      all.push_back(block(0));
      if (skip_blank() && !ends_document()) refuse("is indented differently from the lines before it");
    }
    return all;
  }

 private:
  /// As deep as the collections around a value.
  struct Level {
    explicit Level(Reader& of) : reader(of) {
      if (++reader.depth_ > kDeepest) reader.refuse("is nested too deeply");
    }
    ~Level() { --reader.depth_; }
    Reader& reader;
  };

  [[noreturn]] void refuse(const char* what) const {
    const size_t at = flow_.empty() ? at_ : at_ - 1;  // a flow value is read when its line has been passed
    fail("line " + std::to_string(lines_[std::min(at, lines_.size() - 1)].number) + " " + what);
  }

  Line& line() { return lines_[at_]; }

  bool skip_blank() {
    while (at_ < lines_.size() && line().text.empty()) ++at_;
    return at_ < lines_.size();
  }

  bool ends_document() {
    return line().indent == 0 && (line().text == "---" || line().text == "..." || line().text.starts_with("--- "));
  }

  /// Whether the next line that is not blank belongs to a value whose lines have this indent at least.
  bool goes_on(size_t indent) { return skip_blank() && !ends_document() && line().indent >= indent; }

  /// Takes so many bytes off the line, as indent.
  void replace(size_t bytes) {
    const std::string_view rest = trimmed(line().text.substr(bytes));
    line().indent += static_cast<size_t>(rest.data() - line().text.data());
    line().text = rest;
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

  Json keep(const std::string& anchor, Json value) {
    if (anchor.empty()) return value;
    spend(value, depth_);
    return anchors_[anchor] = std::move(value);
  }

  Json alias(std::string_view name) {
    const auto found = anchors_.find(name);
    if (found == anchors_.end()) refuse("has an alias without its anchor");
    spend(found->second, depth_);
    return found->second;
  }

  /// Takes "&anchor" and "!tag" off the front of a value.
  static std::string take_properties(std::string_view& text) {
    std::string anchor;
    while (!text.empty() && (text[0] == '&' || text[0] == '!')) {
      const size_t end = std::min(text.find_first_of(" \t"), text.size());
      if (text[0] == '&') anchor = text.substr(1, end - 1);
      text = trimmed(text.substr(end));
    }
    return anchor;
  }

  Json block(size_t indent) {
    const Level level(*this);
    if (!goes_on(indent)) return nullptr;
    if (is_item(line().text)) return sequence();
    std::string_view text = line().text;
    if (const std::string anchor = take_properties(text); text.data() != line().text.data())
      return keep(anchor, behind_properties(text, indent));
    return colon_of_key(text) != text.npos ? mapping() : value(text, indent);
  }

  Json behind_properties(std::string_view text, size_t indent) {
    if (text.empty()) {
      ++at_;
      return block(indent);
    }
    replace(static_cast<size_t>(text.data() - line().text.data()));
    return block(indent);
  }

  Json sequence() {
    const size_t indent = line().indent;
    Json items = Json::array();
    while (goes_on(indent) && line().indent == indent && is_item(line().text)) {
      spend(sizeof(Json));
      line().text == "-" ? void(++at_) : replace(1);
      if (at_ < lines_.size() && without_comment(line().text).empty()) ++at_;
      items.push_back(block(indent + 1));
    }
    return items;
  }

  Json mapping() {
    const size_t indent = line().indent;
    Json members = Json::object();
    while (goes_on(indent) && line().indent == indent && !is_item(line().text)) {
      const std::string_view text = line().text;
      const size_t colon = colon_of_key(text);
      if (colon == text.npos) refuse("is no 'key: value'");
      const std::string_view word = trimmed(text.substr(0, colon));
      const std::string key = word[0] == '"' || word[0] == '\'' ? unquoted(word) : std::string(word);
      spend(sizeof(Json) + key.size());
      if (members.size() == kMostKeys) refuse("is one key too many");
      add(members, key, member(trimmed(text.substr(colon + 1)), indent));
    }
    return members;
  }

  void add(Json& members, const std::string& key, Json value) {
    if (key != "<<") {
      members[key] = std::move(value);
      return;
    }
    if (!value.is_array()) value = Json::array({std::move(value)});
    for (const Json& merged : value) {
      if (!merged.is_object()) continue;
      for (const auto& item : merged.items())
        if (members.size() < kMostKeys && !members.contains(item.key())) members[item.key()] = item.value();
    }
  }

  /// What stands behind a key, or in the lines below.
  Json member(std::string_view text, size_t indent) {
    std::string_view rest = text;
    const std::string anchor = take_properties(rest);
    if (!without_comment(rest).empty()) return keep(anchor, value(rest, indent + 1));
    ++at_;
    if (goes_on(indent) && line().indent == indent && is_item(line().text)) {
      const Level level(*this);
      return keep(anchor, sequence());
    }
    return keep(anchor, block(indent + 1));
  }

  /// One that begins with this text of the line; lines of at least this indent may go on with it.
  Json value(std::string_view text, size_t indent) {
    if (text[0] == '|' || text[0] == '>') return literal(text[0] == '>', indent);
    if (text[0] == '*') {
      Json copy = alias(without_comment(text).substr(1));
      ++at_;
      return copy;
    }
    ++at_;
    if (!text.starts_with("{{") && std::string_view("[{\"'").find(text[0]) != text.npos) {
      flow_ = text;
      flow_at_ = 0;
      Json read = flow();
      flow_ = {};
      return read;
    }
    std::string plain(without_comment(text));
    while (goes_on(indent)) {
      plain += " " + std::string(without_comment(line().text));
      ++at_;
    }
    spend(plain.size());
    return scalar(plain);
  }

  Json literal(bool folded, size_t indent) {
    std::string text;
    ++at_;
    size_t begin = 0;
    for (; at_ < lines_.size(); ++at_) {
      const std::string_view raw = line().raw;
      const size_t first = raw.find_first_not_of(" \t\r");
      if (first != raw.npos && first < std::max(indent, begin)) break;
      if (first != raw.npos && begin == 0) begin = first;
      const std::string_view content = first == raw.npos ? std::string_view() : raw.substr(std::min(begin, first));
      text += content.substr(0, content.find('\r'));
      text += folded && !content.empty() ? ' ' : '\n';
    }
    spend(text.size());
    return text;
  }

  /// The next character of a flow value that is no space, with the lines that it goes on in.
  char next() {
    for (;;) {
      while (flow_at_ < flow_.size() && is_space(flow_[flow_at_])) ++flow_at_;
      if (flow_at_ < flow_.size() && flow_[flow_at_] != '#') return flow_[flow_at_];
      more();
    }
  }

  void more() {
    if (!skip_blank()) {
      at_ = lines_.size();
      refuse("ends within a list, a mapping or quotes");
    }
    flow_ = lines_[at_++].text;
    flow_at_ = 0;
  }

  std::string quoted_word() {
    const char quote = flow_[flow_at_++];
    std::string word(1, quote);
    for (;;) {
      if (flow_at_ == flow_.size()) {
        more();
        word += ' ';
      }
      const char c = flow_[flow_at_++];
      word += c;
      const bool escapes = quote == '"' ? c == '\\' : c == quote && flow_at_ < flow_.size() && flow_[flow_at_] == quote;
      if (escapes && flow_at_ < flow_.size())
        word += flow_[flow_at_++];
      else if (c == quote)
        return unquoted(word);
    }
  }

  Json flow() {
    const Level level(*this);
    spend(sizeof(Json));
    const char first = next();
    if (first == '[' || first == '{') return flow_collection(first == '{');
    if (first == '"' || first == '\'') {
      const std::string word = quoted_word();
      spend(word.size());
      return word;
    }
    const std::string_view text = std::string_view(flow_).substr(flow_at_);
    size_t end = 0;
    while (end < text.size() && std::string_view(",[]{}").find(text[end]) == text.npos &&
           !(text[end] == ':' && (end + 1 == text.size() || is_space(text[end + 1]))))
      ++end;
    const std::string word(trimmed(without_comment(text.substr(0, end))));
    spend(word.size());
    flow_at_ += end;
    return word.starts_with("*") ? alias(word.substr(1)) : scalar(word);
  }

  Json flow_collection(bool is_mapping) {
    Json out = is_mapping ? Json::object() : Json::array();
    const char close = is_mapping ? '}' : ']';
    ++flow_at_;
    while (next() != close) {
      const size_t before = flow_.size() - flow_at_;
      const Json key = flow();
      if (is_mapping) {
        if (!key.is_string()) refuse("has a mapping in braces without 'key: value'");
        if (out.size() == kMostKeys) refuse("is one key too many");
        Json& member = out[key.get<std::string>()];
        if (next() == ':') {
          ++flow_at_;
          if (const char c = next(); c != ',' && c != close) member = flow();
        }
      } else {
        out.push_back(key);
      }
      if (next() == ',')
        ++flow_at_;
      else if (flow_[flow_at_] != close || before == flow_.size() - flow_at_)
        refuse("has a list or mapping without its commas");
    }
    ++flow_at_;
    return out;
  }

  std::vector<Line> lines_;
  size_t at_ = 0, bytes_ = 0, flow_at_ = 0;
  int depth_ = 0;
  std::string_view flow_;  // of a flow value, or of one in quotes, the line that is read
  std::map<std::string, Json, std::less<>> anchors_;
};

}  // namespace

std::vector<Json> parse_yaml(std::string_view text) { return Reader(text).documents(); }

}  // namespace kvcal
