// Filters that make text.

#include <algorithm>
#include <map>

#include "base/json.h"
#include "jinja/python_text.h"
#include "jinja/runtime.h"
#include "unicode/unicode.h"
#include "unicode/utf8.h"

namespace kvcal::jinja {
namespace {

// Filters take any value where they need a text: str() of it.
std::string text_of(const Value& v) { return to_str(v); }

Value tojson(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("tojson", a, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = b.flag_or(0, false);
  style.sort_keys = b.flag_or(3, false);
  if (!b.is_none_or_missing(1)) {
    style.indented = true;
    style.item_separator = ",";
    if (const Text* t = b.at(1).as_text())
      style.indent = t->text;
    else
      style.indent.assign(static_cast<size_t>(std::clamp<int64_t>(b.integer(1), 0, 100)), ' ');
  }
  if (!b.is_none_or_missing(2)) {
    const Values pair = iterate(b.at(2));
    if (pair.size() != 2 || !pair[0].as_text() || !pair[1].as_text()) fail("separators must be two strings");
    style.item_separator = pair[0].as_text()->text;
    style.key_separator = pair[1].as_text()->text;
  }
  return rt.text(to_json(v, style));
}

Value from_json(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("from_json", a, {});
  const std::string text = text_of(v);
  rt.charge(text.size() * 16);
  return Value::from_json(parse_json(text, {.keep_large_integers = true}));
}

Value trim(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("trim", a, {"chars"});
  const std::string text = text_of(v);
  if (b.is_none_or_missing(0)) return rt.text(std::string(python::strip(text, python::Side::Both)));
  return rt.text(std::string(python::strip(text, python::Side::Both, b.text(0))));
}

Value string(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("string", a, {});
  return v.as_text() ? v : rt.text(text_of(v));
}

Value safe(Runtime&, const Value& v, Arguments& a) {
  Bound b("safe", a, {});
  return Value::text(text_of(v), true);
}

Value escape(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("escape", a, {});
  if (v.as_text() && v.as_text()->markup) return v;
  std::string text = html_escape(text_of(v));
  rt.charge(text.size());
  return Value::text(std::move(text), true);
}

template <std::string (*Change)(std::string_view)>
Value changed_case(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("case", a, {});
  return rt.text(Change(text_of(v)));
}

// Not str.title: words begin behind white space and -({[<, so that "it's" stays one word.
std::string title_words(std::string_view text) {
  std::u32string out;
  std::u32string word;
  const auto flush = [&] {
    if (word.empty()) return;
    out += to_code_points(python::upper(from_code_points(word.substr(0, 1))));
    out += to_code_points(python::lower(from_code_points(word.substr(1))));
    word.clear();
  };
  for (char32_t c : to_code_points(text)) {
    const bool separates = python::is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    if (separates) {
      flush();
      out += c;
    } else {
      word += c;
    }
  }
  flush();
  return from_code_points(out);
}

Value replace(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("replace", a, {"old", "new", "count"});
  const std::string text = text_of(v), from = text_of(b.at(0)), to = text_of(b.at(1));
  rt.charge(text.size());
  const auto hits = static_cast<size_t>(python::count(text, from));
  if (!to.empty() && hits > rt.limits().max_output_bytes / to.size()) rt.charge(SIZE_MAX);
  return rt.text(python::replace(text, from, to, b.is_none_or_missing(2) ? -1 : b.integer(2)));
}

Value indent(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("indent", a, {"width", "first", "blank"});
  const Text* t = v.as_text();
  if (!t) fail("needs a str, not " + type_name(v));
  std::string margin(4, ' ');
  if (b.has(0) && b.at(0).as_text())
    margin = b.text(0);
  else if (b.has(0))
    margin.assign(static_cast<size_t>(std::clamp<int64_t>(b.integer(0), 0, 1000)), ' ');
  const bool blank = b.flag_or(2, false);
  const std::vector<std::string> lines = python::split_lines(t->text + "\n", false);
  if (margin.size() > 0 && lines.size() > rt.limits().max_output_bytes / margin.size()) rt.charge(SIZE_MAX);
  std::string out = b.flag_or(1, false) ? margin : "";
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += "\n" + (blank || !lines[i].empty() ? margin : "");
    out += lines[i];
  }
  return rt.text(std::move(out));
}

Value join(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("join", a, {"d", "attribute"});
  const std::string separator = b.has(0) ? text_of(b.at(0)) : "";
  std::string out;
  bool first = true;
  for (const Value& item : iterate(v)) {
    if (!first) out += separator;
    first = false;
    out += to_str(b.is_none_or_missing(1) ? item : rt.attribute_path(item, b.at(1)));
    if (out.size() > rt.limits().max_output_bytes) rt.charge(out.size());
  }
  return rt.text(std::move(out));
}

Value format(Runtime& rt, const Value& v, Arguments& a) {
  if (!a.named.empty() && !a.positional.empty()) fail("takes positional or named arguments, not both");
  if (a.named.empty()) return rt.text(format_percent(text_of(v), Value::tuple(a.positional)));
  Dict d;
  for (const auto& [name, value] : a.named) d.set(Value::text(name), value);
  return rt.text(format_percent(text_of(v), Value::dict(std::move(d))));
}

Value wordcount(Runtime&, const Value& v, Arguments& a) {
  Bound b("wordcount", a, {});
  const std::string text = text_of(v);
  int64_t n = 0;
  bool inside = false;
  for (size_t i = 0; i < text.size();) {
    const char32_t c = next_code_point(text, i);
    const bool word = c == '_' || python::is_alpha(c) || is_numeric(c);
    n += word && !inside ? 1 : 0;
    inside = word;
  }
  return Value::integer(n);
}

Value center(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("center", a, {"width"});
  const std::string text = text_of(v);
  const int64_t width = std::clamp<int64_t>(b.integer_or(0, 80), 0, 100'000);
  const auto n = static_cast<int64_t>(python::length(text));
  if (n >= width) return rt.text(text);
  const int64_t pad = width - n, left = pad / 2 + (pad & width & 1);
  return rt.text(std::string(static_cast<size_t>(left), ' ') + text +
                 std::string(static_cast<size_t>(pad - left), ' '));
}

Value truncate(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("truncate", a, {"length", "killwords", "end", "leeway"});
  if (!v.as_text()) {
    if (length_of(v) <= b.integer_or(0, 255) + (b.is_none_or_missing(3) ? 5 : b.integer(3))) return v;
    fail("needs a str, not " + type_name(v));
  }
  const std::u32string s = to_code_points(text_of(v));
  const int64_t length = b.integer_or(0, 255), leeway = b.is_none_or_missing(3) ? 5 : b.integer(3);
  const std::string end = b.text_or(2, "...");
  const auto n_end = static_cast<int64_t>(python::length(end));
  if (length < n_end) fail("expected length >= " + std::to_string(n_end) + ", got " + std::to_string(length));
  if (static_cast<int64_t>(s.size()) <= length + leeway) return rt.text(from_code_points(s));
  std::u32string kept = s.substr(0, static_cast<size_t>(length - n_end));
  if (const size_t space = kept.rfind(U' '); !b.flag_or(1, false) && space != std::u32string::npos) kept.resize(space);
  return rt.text(from_code_points(kept) + end);
}

const std::map<std::string, FilterFunction, std::less<>> kTextFilters{
    {"tojson", tojson},
    {"from_json", from_json},
    {"trim", trim},
    {"string", string},
    {"safe", safe},
    {"escape", escape},
    {"e", escape},
    {"upper", changed_case<python::upper>},
    {"lower", changed_case<python::lower>},
    {"capitalize", changed_case<python::capitalize>},
    {"title", changed_case<title_words>},
    {"replace", replace},
    {"indent", indent},
    {"join", join},
    {"format", format},
    {"wordcount", wordcount},
    {"center", center},
    {"truncate", truncate},
};

}  // namespace

FilterFunction find_text_filter(std::string_view name) {
  const auto it = kTextFilters.find(name);
  return it == kTextFilters.end() ? nullptr : it->second;
}

std::vector<std::string> text_filter_names() {
  std::vector<std::string> names;
  for (const auto& [name, filter] : kTextFilters) names.push_back(name);
  return names;
}

}  // namespace kvcal::jinja
