#include "export/json_edit.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace kvcal {
namespace {

constexpr JsonLimits kLimits{.max_bytes = size_t{512} << 20, .max_depth = 64, .allow_non_finite = true};

struct Member {
  std::string key;
  size_t key_begin, value_begin, value_end;
};

/// An object of the text: where its braces are, and its members in order.
struct ObjectPlace {
  size_t open = 0, close = 0;
  std::vector<Member> members;
};

/// Walks a text that is known to be sound.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  ObjectPlace object_at(size_t open) const {
    ObjectPlace place;
    place.open = open;
    size_t at = after_space(open + 1);
    while (text_[at] != '}') {
      Member member;
      member.key_begin = at;
      const size_t key_end = after_string(at);
      member.key = key_text(text_.substr(at, key_end - at));
      member.value_begin = after_space(after_space(key_end) + 1);  // over the colon
      member.value_end = after_value(member.value_begin);
      at = after_space(member.value_end);
      place.members.push_back(std::move(member));
      if (text_[at] == ',') at = after_space(at + 1);
    }
    place.close = at;
    return place;
  }

 private:
  static std::string key_text(std::string_view token) {
    if (token.find('\\') == token.npos) return std::string(token.substr(1, token.size() - 2));
    return parse_json(token).get<std::string>();
  }

  size_t after_space(size_t at) const { return std::min(text_.find_first_not_of(" \t\r\n", at), text_.size()); }

  size_t after_string(size_t quote) const {
    size_t at = quote + 1;
    while (text_[at] != '"') at += text_[at] == '\\' ? 2 : 1;
    return at + 1;
  }

  size_t after_value(size_t begin) const {
    if (text_[begin] == '"') return after_string(begin);
    if (text_[begin] != '{' && text_[begin] != '[')
      return std::min(text_.find_first_of(",]} \t\r\n", begin), text_.size());
    int depth = 0;
    for (size_t at = begin;;) {
      const char c = text_[at];
      if (c == '"') {
        at = after_string(at);
        continue;
      }
      depth += (c == '{' || c == '[') - (c == '}' || c == ']');
      ++at;
      if (depth == 0) return at;
    }
  }

  std::string_view text_;
};

/// How the author wrote: line ends and indentation, or everything on one line.
struct Style {
  std::string newline, unit;  // newline "": one line
  std::string colon = ": ", comma = ", ";
};

/// Spaces and tabs in front of a member, when it begins a line.
std::string indent_of(std::string_view text, size_t begin) {
  size_t line = begin;
  while (line > 0 && (text[line - 1] == ' ' || text[line - 1] == '\t')) --line;
  return line > 0 && text[line - 1] == '\n' ? std::string(text.substr(line, begin - line)) : "";
}

Style style_of(std::string_view text, const ObjectPlace& root) {
  Style style;
  if (root.members.empty()) return {.newline = "\n", .unit = "  "};
  const Member& first = root.members.front();
  const std::string_view before = text.substr(root.open, first.key_begin - root.open);
  if (before.find('\n') == before.npos) {
    if (text[first.value_begin - 1] == ':') style.colon = ":", style.comma = ",";
    return style;
  }
  style.newline = before.find("\r\n") == before.npos ? "\n" : "\r\n";
  style.unit = indent_of(text, first.key_begin);
  if (style.unit.empty()) style.unit = "  ";
  return style;
}

std::string value_text(const Json& value, const Style& style, const std::string& indent) {
  if (style.newline.empty()) return value.dump();
  const std::string lines = value.dump(static_cast<int>(style.unit.size()), style.unit[0]);
  std::string out;
  for (const char c : lines) out += c == '\n' ? style.newline + indent : std::string(1, c);
  return out;
}

struct Edit {
  size_t begin, end;  // of what is replaced
  std::string text;
};

std::string applied(std::string_view text, const std::vector<Edit>& edits) {
  std::string out;
  size_t at = 0;
  for (const Edit& edit : edits) {
    out += text.substr(at, edit.begin - at);
    out += edit.text;
    at = edit.end;
  }
  out += text.substr(at);
  return out;
}

/// Where the object at `path` is; `path` must lead from object to object.
ObjectPlace find_object(std::string_view text, std::span<const std::string> path) {
  const Scanner scanner(text);
  ObjectPlace place = scanner.object_at(text.find('{'));
  std::string so_far;
  for (const std::string& key : path) {
    so_far += (so_far.empty() ? "" : ".") + key;
    const auto member = std::ranges::find(place.members, key, &Member::key);
    if (member == place.members.end() || text[member->value_begin] != '{') fail("has no object " + quoted(so_far));
    place = scanner.object_at(member->value_begin);
  }
  return place;
}

/// The members that were not there, after the last one.
Edit appended(std::string_view text, const ObjectPlace& place, const Style& style, size_t depth,
              const std::vector<const JsonMember*>& added) {
  std::string outer;
  for (size_t i = 0; i < depth; ++i) outer += style.unit;
  std::string indent = outer + style.unit;
  if (!place.members.empty())
    if (const std::string own = indent_of(text, place.members.front().key_begin); !own.empty()) indent = own;
  std::string out;
  for (const JsonMember* member : added) {
    const bool first = place.members.empty() && member == added.front();
    if (!first) out += style.newline.empty() ? style.comma : ",";
    if (!style.newline.empty()) out += style.newline + indent;
    out += Json(member->key).dump() + style.colon + value_text(member->value, style, indent);
  }
  if (!place.members.empty()) return {place.members.back().value_end, place.members.back().value_end, out};
  return {place.open + 1, place.close, out + (style.newline.empty() ? "" : style.newline + outer)};
}

/// Each member that goes takes one comma with it: the one before, where a member before it stays, else the one after.
std::vector<Edit> removals(const ObjectPlace& place, const std::set<std::string, std::less<>>& keys) {
  const std::vector<Member>& members = place.members;
  const auto goes = [&](const Member& m) { return keys.contains(m.key); };
  if (std::ranges::all_of(members, goes)) return {{place.open + 1, place.close, ""}};
  std::vector<Edit> edits;
  bool one_stays = false;
  for (size_t i = 0; i < members.size(); ++i) {
    if (!goes(members[i]))
      one_stays = true;
    else if (one_stays)
      edits.push_back({members[i - 1].value_end, members[i].value_end, ""});
    else
      edits.push_back({members[i].key_begin, members[i + 1].key_begin, ""});
  }
  return edits;
}

Json parsed_object(std::string_view text) {
  Json json = parse_json(text, kLimits);
  if (!json.is_object()) fail("is JSON but not an object");
  return json;
}

/// Nothing is written that does not say what was meant.
std::string checked(std::string text, const Json& expected) {
  if (canonical_json(parse_json(text, kLimits)) != canonical_json(expected))
    fail("cannot be edited as text: the result would differ from what is intended");
  return text;
}

}  // namespace

std::string remove_json_members(std::string_view text, std::span<const std::string> path,
                                std::span<const std::string> keys) {
  Json expected = parsed_object(text);
  const std::set<std::string, std::less<>> gone(keys.begin(), keys.end());
  std::string result = applied(text, removals(find_object(text, path), gone));
  Json* object = &expected;
  for (const std::string& key : path) object = &(*object)[key];
  Json kept = Json::object();
  for (const auto& [key, value] : object->items())
    if (!gone.contains(key)) kept.get_ref<Json::object_t&>().emplace_back(key, value);
  *object = std::move(kept);
  return checked(std::move(result), expected);
}

std::string set_json_members(std::string_view text, std::span<const std::string> path,
                             std::span<const JsonMember> members) {
  Json expected = parsed_object(text);
  const ObjectPlace place = find_object(text, path);
  const Style style = style_of(text, find_object(text, {}));
  std::map<std::string, size_t, std::less<>> there;
  for (size_t i = 0; i < place.members.size(); ++i) there[place.members[i].key] = i;

  std::vector<Edit> edits;
  std::vector<const JsonMember*> added;
  for (const JsonMember& member : members) {
    const auto old = there.find(member.key);
    if (old == there.end()) {
      added.push_back(&member);
      continue;
    }
    const Member& found = place.members[old->second];
    const std::string indent = indent_of(text, found.key_begin);
    edits.push_back({found.value_begin, found.value_end, value_text(member.value, style, indent)});
  }
  if (!added.empty()) edits.push_back(appended(text, place, style, path.size(), added));
  std::ranges::stable_sort(edits, {}, &Edit::begin);
  std::string result = applied(text, edits);

  Json* object = &expected;
  for (const std::string& key : path) object = &(*object)[key];
  for (const JsonMember& member : members) (*object)[member.key] = member.value;
  return checked(std::move(result), expected);
}

}  // namespace kvcal
