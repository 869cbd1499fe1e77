// Methods of strings, dicts, lists and numbers.

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "jinja/python_text.h"
#include "jinja/runtime.h"
#include "unicode/unicode.h"
#include "unicode/utf8.h"

namespace kvcal::jinja {
namespace {

using python::Side;
using TextMethod = Value (*)(Runtime&, const std::string&, Arguments&);
using DictMethod = Value (*)(Runtime&, const Dict&, Arguments&);

Values texts(std::vector<std::string> parts) {
  Values out;
  for (std::string& p : parts) out.push_back(Value::text(std::move(p)));
  return out;
}

template <Side Which>
Value strip(Runtime& rt, const std::string& s, Arguments& a) {
  Bound b("strip", a, {"chars"});
  return rt.text(std::string(b.is_none_or_missing(0) ? python::strip(s, Which) : python::strip(s, Which, b.text(0))));
}

template <bool FromRight>
Value split(Runtime& rt, const std::string& s, Arguments& a) {
  Bound b(FromRight ? "rsplit" : "split", a, {"sep", "maxsplit"});
  const int64_t limit = b.integer_or(1, -1);
  rt.charge(s.size());
  if (b.is_none_or_missing(0))
    return rt.list(texts(FromRight ? python::rsplit_space(s, limit) : python::split_space(s, limit)));
  if (b.text(0).empty()) fail("split: empty separator");
  return rt.list(texts(FromRight ? python::rsplit(s, b.text(0), limit) : python::split(s, b.text(0), limit)));
}

Value splitlines(Runtime& rt, const std::string& s, Arguments& a) {
  Bound b("splitlines", a, {"keepends"});
  return rt.list(texts(python::split_lines(s, b.flag_or(0, false))));
}

// startswith and endswith take one text or a tuple of them, and positions that are rarely given.
template <bool AtStart>
Value affix(Runtime&, const std::string& s, Arguments& a) {
  const char* name = AtStart ? "startswith" : "endswith";
  Bound b(name, a, {"prefix"});
  const auto matches = [&](const Value& v) {
    if (v.is_undefined()) fail_undefined(v);
    if (!v.as_text()) fail(std::string(name) + " first arg must be str or a tuple of str, not " + type_name(v));
    return AtStart ? s.starts_with(v.as_text()->text) : s.ends_with(v.as_text()->text);
  };
  const Sequence* many = b.at(0).as_sequence();
  if (!many || many->kind != SequenceKind::Tuple) return Value::boolean(matches(b.at(0)));
  return Value::boolean(std::any_of(many->items.begin(), many->items.end(), matches));
}

Value replace(Runtime& rt, const std::string& s, Arguments& a) {
  Bound b("replace", a, {"old", "new", "count"});
  const auto hits = static_cast<size_t>(python::count(s, b.text(0)));
  if (!b.text(1).empty() && hits > rt.limits().max_output_bytes / b.text(1).size()) rt.charge(SIZE_MAX);
  return rt.text(python::replace(s, b.text(0), b.text(1), b.integer_or(2, -1)));
}

template <std::string (*Change)(std::string_view)>
Value changed(Runtime& rt, const std::string& s, Arguments& a) {
  Bound b("method", a, {});
  return rt.text(Change(s));
}

Value join(Runtime& rt, const std::string& s, Arguments& a) {
  Bound b("join", a, {"iterable"});
  std::string out;
  size_t i = 0;
  if (b.at(0).is_undefined()) fail_undefined(b.at(0));
  for (const Value& item : iterate(b.at(0))) {
    if (!item.as_text())
      fail("join: sequence item " + std::to_string(i) + ": expected str instance, " + type_name(item) + " found");
    if (i++ > 0) out += s;
    out += item.as_text()->text;
    if (out.size() > rt.limits().max_output_bytes) rt.charge(out.size());
  }
  return rt.text(std::move(out));
}

template <bool Last, bool Required>
Value find(Runtime&, const std::string& s, Arguments& a) {
  Bound b("find", a, {"sub", "start", "end"});
  if (b.has(1) || b.has(2)) fail("find with start or end is not supported");
  const size_t at = Last ? s.rfind(b.text(0)) : s.find(b.text(0));
  if (at == std::string::npos && Required) fail("substring not found");
  if (at == std::string::npos) return Value::integer(-1);
  return Value::integer(static_cast<int64_t>(python::length(std::string_view(s).substr(0, at))));
}

Value count(Runtime&, const std::string& s, Arguments& a) {
  Bound b("count", a, {"sub"});
  return Value::integer(python::count(s, b.text(0)));
}

Value format(Runtime& rt, const std::string& s, Arguments& a) { return rt.text(format_braces(rt, s, a)); }

template <bool Prefix>
Value remove_affix(Runtime& rt, const std::string& s, Arguments& a) {
  Bound b(Prefix ? "removeprefix" : "removesuffix", a, {"affix"});
  const std::string& part = b.text(0);
  if (Prefix && s.starts_with(part)) return rt.text(s.substr(part.size()));
  if (!Prefix && s.ends_with(part)) return rt.text(s.substr(0, s.size() - part.size()));
  return Value::text(s);
}

template <bool FromRight>
Value partition(Runtime& rt, const std::string& s, Arguments& a) {
  Bound b("partition", a, {"sep"});
  if (b.text(0).empty()) fail("partition: empty separator");
  const size_t at = FromRight ? s.rfind(b.text(0)) : s.find(b.text(0));
  Values parts =
      texts({at == std::string::npos ? (FromRight ? "" : s) : s.substr(0, at), at == std::string::npos ? "" : b.text(0),
             at == std::string::npos ? (FromRight ? s : "") : s.substr(at + b.text(0).size())});
  return rt.list(std::move(parts), SequenceKind::Tuple);
}

template <bool (*Property)(char32_t)>
Value all_are(Runtime&, const std::string& s, Arguments& a) {
  Bound b("method", a, {});
  const std::u32string codes = to_code_points(s);
  return Value::boolean(!codes.empty() && std::all_of(codes.begin(), codes.end(), Property));
}

bool is_alnum(char32_t c) { return is_numeric(c) || python::is_alpha(c); }

template <bool Upper>
Value has_case(Runtime& rt, const std::string& s, Arguments& a) {
  Bound b("method", a, {});
  Arguments none;
  return Value::boolean(rt.call_test(Upper ? "upper" : "lower", Value::text(s), none));
}

template <int Where>  // -1: text to the left, 1: to the right
Value justify(Runtime& rt, const std::string& s, Arguments& a) {
  Bound b(Where < 0 ? "ljust" : "rjust", a, {"width", "fillchar"});
  const auto n = static_cast<int64_t>(python::length(s));
  const std::string fill = b.text_or(1, " ");
  std::string pad;
  for (int64_t i = n; i < std::min<int64_t>(b.integer(0), n + 100'000); ++i) pad += fill;
  return rt.text(Where < 0 ? s + pad : pad + s);
}

const std::map<std::string, TextMethod, std::less<>> kTextMethods{
    {"strip", strip<Side::Both>},
    {"lstrip", strip<Side::Left>},
    {"rstrip", strip<Side::Right>},
    {"split", split<false>},
    {"rsplit", split<true>},
    {"splitlines", splitlines},
    {"startswith", affix<true>},
    {"endswith", affix<false>},
    {"replace", replace},
    {"upper", changed<python::upper>},
    {"lower", changed<python::lower>},
    {"casefold", changed<python::casefold>},
    {"title", changed<python::title>},
    {"capitalize", changed<python::capitalize>},
    {"join", join},
    {"find", find<false, false>},
    {"rfind", find<true, false>},
    {"index", find<false, true>},
    {"rindex", find<true, true>},
    {"count", count},
    {"format", format},
    {"removeprefix", remove_affix<true>},
    {"removesuffix", remove_affix<false>},
    {"partition", partition<false>},
    {"rpartition", partition<true>},
    {"isdigit", all_are<python::is_digit>},
    {"isdecimal", all_are<python::is_decimal>},
    {"isnumeric", all_are<is_numeric>},
    {"isalpha", all_are<python::is_alpha>},
    {"isalnum", all_are<is_alnum>},
    {"isspace", all_are<python::is_space>},
    {"isupper", has_case<true>},
    {"islower", has_case<false>},
    {"ljust", justify<-1>},
    {"rjust", justify<1>},
};

// What Python's str has beyond that: refused by name, where a name that no str has is just undefined.
const std::set<std::string, std::less<>> kOtherTextMethods{"center",    "encode",       "expandtabs",  "format_map",
                                                           "isascii",   "isidentifier", "isprintable", "istitle",
                                                           "maketrans", "swapcase",     "translate",   "zfill"};

Value pair_list(Runtime& rt, const Dict& d) {
  Values pairs;
  for (const auto& [key, value] : d.items) pairs.push_back(Value::tuple({key, value}));
  rt.charge(pairs.size() * 3 * sizeof(Value));
  return Value::sequence(SequenceKind::View, std::move(pairs), "dict_items");
}

Value dict_items(Runtime& rt, const Dict& d, Arguments& a) {
  Bound b("items", a, {});
  return pair_list(rt, d);
}

template <bool Keys>
Value dict_side(Runtime& rt, const Dict& d, Arguments& a) {
  Bound b(Keys ? "keys" : "values", a, {});
  Values out;
  for (const auto& [key, value] : d.items) out.push_back(Keys ? key : value);
  rt.charge(out.size() * sizeof(Value));
  return Value::sequence(SequenceKind::View, std::move(out), Keys ? "dict_keys" : "dict_values");
}

Value dict_get(Runtime&, const Dict& d, Arguments& a) {
  Bound b("get", a, {"key", "default"});
  const Value* v = b.at(0).is_undefined() ? nullptr : d.find(b.at(0));
  return v ? *v : b.get_or(1, Value::none());
}

Value dict_copy(Runtime&, const Dict& d, Arguments& a) {
  Bound b("copy", a, {});
  return Value::dict(d);
}

const std::map<std::string, DictMethod, std::less<>> kDictMethods{{"items", dict_items},
                                                                  {"keys", dict_side<true>},
                                                                  {"values", dict_side<false>},
                                                                  {"get", dict_get},
                                                                  {"copy", dict_copy}};

// Methods that change their object: the sandbox of the reference makes them undefined values that complain when used.
const std::set<std::string, std::less<>> kMutatingDict{"clear", "pop", "popitem", "setdefault", "update"};
const std::set<std::string, std::less<>> kMutatingList{"append", "clear",   "extend", "insert",
                                                       "pop",    "reverse", "remove", "sort"};

Value unsafe(const Value& object, const std::string& name) {
  return Value::undefined("access to attribute " + quoted(name) + " of '" + type_name(object) +
                          "' object is unsafe: templates must not change lists and dicts");
}

Value sequence_method(const Value& object, const Sequence& s, const std::string& name) {
  if (s.kind == SequenceKind::Generator || s.kind == SequenceKind::View) return Value();
  if (s.kind == SequenceKind::List && kMutatingList.count(name)) return unsafe(object, name);
  if (name == "copy" && s.kind == SequenceKind::List)
    return Value::callable(name, [object](Runtime& rt, Arguments&) { return rt.list(object.as_sequence()->items); });
  if (name == "count" || name == "index")
    return Value::callable(name, [object, name](Runtime&, Arguments& a) {
      Bound b(name, a, {"value"});
      const Values& items = object.as_sequence()->items;
      const auto is_it = [&](const Value& v) { return equal(v, b.at(0)); };
      if (name == "count") return Value::integer(std::count_if(items.begin(), items.end(), is_it));
      const auto it = std::find_if(items.begin(), items.end(), is_it);
      if (it == items.end()) fail(to_repr(b.at(0)) + " is not in list");
      return Value::integer(it - items.begin());
    });
  return Value();
}

}  // namespace

Value find_method(const Value& object, const std::string& name) {
  if (object.as_text()) {
    if (const auto it = kTextMethods.find(name); it != kTextMethods.end())
      return Value::callable(name, [object, method = it->second](Runtime& rt, Arguments& a) {
        return method(rt, object.as_text()->text, a);
      });
    if (kOtherTextMethods.count(name)) fail("method '" + name + "' of str is not supported");
    return Value();
  }
  if (object.as_dict()) {
    if (const auto it = kDictMethods.find(name); it != kDictMethods.end())
      return Value::callable(
          name, [object, method = it->second](Runtime& rt, Arguments& a) { return method(rt, *object.as_dict(), a); });
    return kMutatingDict.count(name) ? unsafe(object, name) : Value();
  }
  if (const Sequence* s = object.as_sequence()) return sequence_method(object, *s, name);
  if (const double* d = object.as_real(); d && name == "is_integer")
    return Value::callable(
        name, [d = *d](Runtime&, Arguments&) { return Value::boolean(std::isfinite(d) && d == std::floor(d)); });
  return Value();
}

}  // namespace kvcal::jinja
