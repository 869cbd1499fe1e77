// Filters that make text.

#include <algorithm>
#include <map>
#include <utility>

#include "base/json.h"
#include "jinja/python_text.h"
#include "jinja/runtime.h"
#include "unicode/unicode.h"
#include "unicode/utf8.h"

namespace kvcal::jinja {
namespace {

// What a byte of JSON takes to parse, and its tree at most: "[]," is a value in three bytes.
constexpr size_t kParsedByteSteps = 100, kParsedByteBytes = 24;

// Filters take any value where they need a text: AsText of it.

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
    const List pair = iterate(rt, b.at(2));
    if (pair.size() != 2 || !pair[0].as_text() || !pair[1].as_text()) fail("separators must be two strings");
    style.item_separator = pair[0].as_text()->text;
    style.key_separator = pair[1].as_text()->text;
  }
  PaidText out(rt);
  append_json(out, v, style);
  return Value::text(std::move(out));
}

Value from_json(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("from_json", a, {});
  const AsText text(rt, v);
  rt.steps(text.view().size(), kParsedByteSteps);
  const Held held(&rt, text.view().size() * kParsedByteBytes);
  return Value::from_json(parse_json(text.view(), {.keep_large_integers = true}), &rt);
}

Value trim(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("trim", a, {"chars"});
  const AsText text(rt, v);
  if (b.is_none_or_missing(0)) return rt.text(python::strip(rt, text.view(), python::Side::Both));
  return rt.text(python::strip(rt, text.view(), python::Side::Both, b.text(0)));
}

Value string(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("string", a, {});
  return v.as_text() ? v : rt.text(AsText(rt, v).view());
}

Value safe(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("safe", a, {});
  return Value::text(&rt, AsText(rt, v).view(), true);
}

Value escape(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("escape", a, {});
  if (v.as_text() && v.as_text()->markup) return v;
  PaidText out(rt);
  append_html_escaped(out, AsText(rt, v).view());
  return Value::text(std::move(out), true);
}

template <void (*Change)(PaidText&, std::string_view)>
Value changed_case(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("case", a, {});
  PaidText out(rt);
  Change(out, AsText(rt, v).view());
  return Value::text(std::move(out));
}

// Not str.title: words begin behind white space and -({[<, so that "it's" stays one word.
void title_words(PaidText& out, std::string_view text) {
  out.budget().steps(text.size(), kCharacterSteps);
  size_t word = 0;
  const auto flush = [&](size_t end) {
    if (word == end) return;
    const size_t first = utf8_length(text[word]);
    python::upper(out, text.substr(word, first));
    python::lower(out, text.substr(word + first, end - word - first));
  };
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i;
    const char32_t c = next_code_point(text, i);
    if (!python::is_space(c) && c != '-' && c != '(' && c != '{' && c != '[' && c != '<') continue;
    flush(begin);
    out += text.substr(begin, i - begin);
    word = i;
  }
  flush(text.size());
}

Value replace(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("replace", a, {"old", "new", "count"});
  PaidText out(rt);
  python::replace(out, AsText(rt, v).view(), AsText(rt, b.at(0)).view(), AsText(rt, b.at(1)).view(),
                  b.is_none_or_missing(2) ? -1 : b.integer(2));
  return Value::text(std::move(out));
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
  PaidText out(rt);
  if (b.flag_or(1, false)) out += margin;
  bool first = true;
  PaidText ended(rt);
  ended += t->text;
  ended += '\n';
  for (const Value& line : python::split_lines(rt, ended.view(), false)) {
    const std::string& text = line.as_text()->text;
    if (!std::exchange(first, false)) {
      out += '\n';
      if (blank || !text.empty()) out += margin;
    }
    out += text;
  }
  return Value::text(std::move(out));
}

Value join(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("join", a, {"d", "attribute"});
  const AsText separator(rt, b.has(0) ? b.at(0) : Value());
  PaidText out(rt);
  bool first = true;
  for (Cursor items(rt, v); const auto item = items.next();) {
    if (!std::exchange(first, false)) out += separator.view();
    append_str(out, b.is_none_or_missing(1) ? *item : rt.attribute_path(*item, b.at(1)));
  }
  return Value::text(std::move(out));
}

Value format(Runtime& rt, const Value& v, Arguments& a) {
  if (!a.named.empty() && !a.positional.empty()) fail("takes positional or named arguments, not both");
  const AsText text(rt, v);
  if (a.named.empty()) return format_percent(rt, text.view(), Value::tuple(List(&rt, a.positional)));
  Dict d(&rt);
  for (const auto& [name, value] : a.named) d.set(rt.text(name), value);
  return format_percent(rt, text.view(), Value::dict(std::move(d)));
}

Value wordcount(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("wordcount", a, {});
  const AsText words(rt, v);
  const std::string_view text = words.view();
  rt.steps(text.size(), kCharacterSteps);
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
  const AsText text(rt, v);
  const int64_t width = std::clamp<int64_t>(b.integer_or(0, 80), 0, 100'000);
  const auto n = static_cast<int64_t>(python::length(rt, text.view()));
  const int64_t pad = std::max<int64_t>(width - n, 0), left = pad / 2 + (pad & width & 1);
  PaidText out(rt);
  out.repeat(" ", static_cast<size_t>(left));
  out += text.view();
  out.repeat(" ", static_cast<size_t>(pad - left));
  return Value::text(std::move(out));
}

Value truncate(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("truncate", a, {"length", "killwords", "end", "leeway"});
  if (!v.as_text()) {
    if (length_of(rt, v) <= b.integer_or(0, 255) + (b.is_none_or_missing(3) ? 5 : b.integer(3))) return v;
    fail("needs a str, not " + type_name(v));
  }
  const std::string_view s = v.as_text()->text;
  const int64_t length = b.integer_or(0, 255), leeway = b.is_none_or_missing(3) ? 5 : b.integer(3);
  const std::string_view end = b.text_or(2, "...");
  const auto n_end = static_cast<int64_t>(python::length(rt, end));
  if (length < n_end) fail("expected length >= " + std::to_string(n_end) + ", got " + std::to_string(length));
  if (static_cast<int64_t>(python::length(rt, s)) <= length + leeway) return rt.text(s);
  size_t kept = 0;
  for (int64_t i = 0; i < length - n_end && kept < s.size(); ++i) kept += utf8_length(s[kept]);
  if (const size_t space = s.substr(0, kept).rfind(' '); !b.flag_or(1, false) && space != s.npos) kept = space;
  PaidText out(rt);
  out += s.substr(0, kept);
  out += end;
  return Value::text(std::move(out));
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
