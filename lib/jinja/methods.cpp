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

template <Side Which>
Value strip(Runtime& rt, const std::string& s, Arguments& a) {
  Bound b("strip", a, {"chars"});
  return rt.text(b.is_none_or_missing(0) ? python::strip(rt, s, Which) : python::strip(rt, s, Which, b.text(0)));
}

template <bool FromRight>
Value split(Runtime& rt, const std::string& s, Arguments& a) {
  Bound b(FromRight ? "rsplit" : "split", a, {"sep", "maxsplit"});
  const int64_t limit = b.integer_or(1, -1);
  if (b.is_none_or_missing(0))
    return Value::list(FromRight ? python::rsplit_space(rt, s, limit) : python::split_space(rt, s, limit));
  if (b.text(0).empty()) fail("split: empty separator");
  return Value::list(FromRight ? python::rsplit(rt, s, b.text(0), limit) : python::split(rt, s, b.text(0), limit));
}

Value splitlines(Runtime& rt, const std::string& s, Arguments& a) {
  Bound b("splitlines", a, {"keepends"});
  return Value::list(python::split_lines(rt, s, b.flag_or(0, false)));
}

// startswith and endswith take one text or a tuple of them, and positions that are rarely given.
template <bool AtStart>
Value affix(Runtime& rt, const std::string& s, Arguments& a) {
  const char* name = AtStart ? "startswith" : "endswith";
  Bound b(name, a, {"prefix"});
  const auto matches = [&](const Value& v) {
    if (v.is_undefined()) fail_undefined(v);
    rt.step();
    if (!v.as_text()) fail(std::string(name) + " first arg must be str or a tuple of str, not " + type_name(v));
    rt.step(std::min(s.size(), v.as_text()->text.size()));
    return AtStart ? s.starts_with(v.as_text()->text) : s.ends_with(v.as_text()->text);
  };
  const Sequence* many = b.at(0).as_sequence();
  if (!many || many->kind != SequenceKind::Tuple) return Value::boolean(matches(b.at(0)));
  return Value::boolean(std::any_of(many->items.begin(), many->items.end(), matches));
}

Value replace(Runtime& rt, const std::string& s, Arguments& a) {
  Bound b("replace", a, {"old", "new", "count"});
  PaidText out(rt);
  python::replace(out, s, b.text(0), b.text(1), b.integer_or(2, -1));
  return Value::text(std::move(out));
}

template <void (*Change)(PaidText&, std::string_view)>
Value changed(Runtime& rt, const std::string& s, Arguments& a) {
  Bound b("method", a, {});
  PaidText out(rt);
  Change(out, s);
  return Value::text(std::move(out));
}

Value join(Runtime& rt, const std::string& s, Arguments& a) {
  Bound b("join", a, {"iterable"});
  PaidText out(rt);
  size_t i = 0;
  if (b.at(0).is_undefined()) fail_undefined(b.at(0));
  for (Cursor items(rt, b.at(0)); const auto item = items.next();) {
    if (!item->as_text())
      fail("join: sequence item " + std::to_string(i) + ": expected str instance, " + type_name(*item) + " found");
    if (i++ > 0) out += s;
    out += item->as_text()->text;
  }
  return Value::text(std::move(out));
}

template <bool Last, bool Required>
Value find(Runtime& rt, const std::string& s, Arguments& a) {
  Bound b("find", a, {"sub", "start", "end"});
  if (b.has(1) || b.has(2)) fail("find with start or end is not supported");
  const size_t at = Last ? python::rfind(rt, s, b.text(0)) : python::find(rt, s, b.text(0));
  if (at == std::string::npos && Required) fail("substring not found");
  if (at == std::string::npos) return Value::integer(-1);
  return Value::integer(static_cast<int64_t>(python::length(rt, std::string_view(s).substr(0, at))));
}

Value count(Runtime& rt, const std::string& s, Arguments& a) {
  Bound b("count", a, {"sub"});
  return Value::integer(python::count(rt, s, b.text(0)));
}

Value format(Runtime& rt, const std::string& s, Arguments& a) { return format_braces(rt, s, a); }

template <bool Prefix>
Value remove_affix(Runtime& rt, const std::string& s, Arguments& a) {
  Bound b(Prefix ? "removeprefix" : "removesuffix", a, {"affix"});
  const std::string& part = b.text(0);
  rt.step(std::min(s.size(), part.size()));
  std::string_view left = s;
  if (Prefix && s.starts_with(part)) left.remove_prefix(part.size());
  if (!Prefix && s.ends_with(part)) left.remove_suffix(part.size());
  return rt.text(left);
}

template <bool FromRight>
Value partition(Runtime& rt, const std::string& s, Arguments& a) {
  Bound b("partition", a, {"sep"});
  const std::string_view whole = s, part = b.text(0);
  if (part.empty()) fail("partition: empty separator");
  const size_t at = FromRight ? python::rfind(rt, s, part) : python::find(rt, s, part);
  List parts(&rt);
  if (at != std::string::npos)
    for (const std::string_view t : {whole.substr(0, at), part, whole.substr(at + part.size())})
      parts.push_back(rt.text(t));
  else
    for (const std::string_view t : {FromRight ? "" : whole, std::string_view(), FromRight ? whole : ""})
      parts.push_back(rt.text(t));
  return Value::tuple(std::move(parts));
}

template <bool (*Property)(char32_t)>
Value all_are(Runtime& rt, const std::string& s, Arguments& a) {
  Bound b("method", a, {});
  rt.steps(s.size(), kCharacterSteps);
  bool all = !s.empty();
  for (size_t i = 0; all && i < s.size();) all = Property(next_code_point(s, i));
  return Value::boolean(all);
}

bool is_alnum(char32_t c) { return is_numeric(c) || python::is_alpha(c); }

template <bool Upper>
Value has_case(Runtime& rt, const std::string& s, Arguments& a) {
  Bound b("method", a, {});
  Arguments none(rt);
  return Value::boolean(rt.call_test(Upper ? "upper" : "lower", rt.text(s), none));
}

template <int Where>  // -1: text to the left, 1: to the right
Value justify(Runtime& rt, const std::string& s, Arguments& a) {
  Bound b(Where < 0 ? "ljust" : "rjust", a, {"width", "fillchar"});
  const auto n = static_cast<int64_t>(python::length(rt, s));
  const auto missing = static_cast<size_t>(std::clamp<int64_t>(b.integer(0) - n, 0, 100'000));
  PaidText out(rt);
  if (Where < 0) out += s;
  out.repeat(b.text_or(1, " "), missing);
  if (Where > 0) out += s;
  return Value::text(std::move(out));
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

Value dict_items(Runtime& rt, const Dict& d, Arguments& a) {
  Bound b("items", a, {});
  List pairs(&rt);
  pairs.reserve(d.items.size());
  for (const auto& [key, value] : d.items) pairs.push_back(Value::pair(&rt, key, value));
  return Value::sequence(SequenceKind::View, std::move(pairs), "dict_items");
}

template <bool Keys>
Value dict_side(Runtime& rt, const Dict& d, Arguments& a) {
  Bound b(Keys ? "keys" : "values", a, {});
  List out(&rt);
  out.reserve(d.items.size());
  for (const auto& [key, value] : d.items) out.push_back(Keys ? key : value);
  return Value::sequence(SequenceKind::View, std::move(out), Keys ? "dict_keys" : "dict_values");
}

Value dict_get(Runtime& rt, const Dict& d, Arguments& a) {
  Bound b("get", a, {"key", "default"});
  const Value* v = b.at(0).is_undefined() ? nullptr : d.find(rt, b.at(0));
  return v ? *v : b.get_or(1, Value::none());
}

Value dict_copy(Runtime& rt, const Dict& d, Arguments& a) {
  Bound b("copy", a, {});
  Dict copy(&rt);
  for (const auto& [key, value] : d.items) copy.set(key, value);
  return Value::dict(std::move(copy));
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

Value unsafe(Budget& budget, const Value& object, const std::string& name) {
  return Value::undefined(&budget, "access to attribute " + quoted(name) + " of '" + type_name(object) +
                                       "' object is unsafe: templates must not change lists and dicts");
}

template <bool Count>
Value sequence_search(Runtime& rt, const Values& items, Arguments& a) {
  Bound b(Count ? "count" : "index", a, {"value"});
  const auto is_it = [&](const Value& v) { return equal(rt, v, b.at(0)); };
  if (Count) return Value::integer(std::count_if(items.begin(), items.end(), is_it));
  const auto it = std::find_if(items.begin(), items.end(), is_it);
  if (it == items.end()) fail(brief_repr(rt, b.at(0)) + " is not in list");
  return Value::integer(it - items.begin());
}

// A callable that holds the object it belongs to.
template <class Call>
Value bound_to(Budget& budget, const Value& object, const std::string& name, Call&& call) {
  return Value::callable(
      budget, name, [object, call](Runtime& rt, Arguments& a) { return call(rt, object, a); }, object.depth());
}

Value sequence_method(Budget& budget, const Value& object, const Sequence& s, const std::string& name) {
  if (s.kind == SequenceKind::Generator || s.kind == SequenceKind::View) return Value();
  if (s.kind == SequenceKind::List && kMutatingList.count(name)) return unsafe(budget, object, name);
  if (name == "copy" && s.kind == SequenceKind::List)
    return bound_to(budget, object, name, [](Runtime& rt, const Value& o, Arguments&) {
      return Value::list(List(&rt, o.as_sequence()->items));
    });
  if (name == "count" || name == "index")
    return bound_to(budget, object, name,
                    [search = name == "count" ? sequence_search<true> : sequence_search<false>](
                        Runtime& rt, const Value& o, Arguments& a) { return search(rt, o.as_sequence()->items, a); });
  return Value();
}

}  // namespace

Value find_method(Budget& budget, const Value& object, const std::string& name) {
  if (object.as_text()) {
    if (const auto it = kTextMethods.find(name); it != kTextMethods.end())
      return bound_to(budget, object, name, [method = it->second](Runtime& rt, const Value& o, Arguments& a) {
        return method(rt, o.as_text()->text, a);
      });
    if (kOtherTextMethods.count(name)) fail("method '" + name + "' of str is not supported");
    return Value();
  }
  if (object.as_dict()) {
    if (const auto it = kDictMethods.find(name); it != kDictMethods.end())
      return bound_to(budget, object, name, [method = it->second](Runtime& rt, const Value& o, Arguments& a) {
        return method(rt, *o.as_dict(), a);
      });
    return kMutatingDict.count(name) ? unsafe(budget, object, name) : Value();
  }
  if (const Sequence* s = object.as_sequence()) return sequence_method(budget, object, *s, name);
  if (object.as_real() && name == "is_integer")
    return bound_to(budget, object, name, [](Runtime&, const Value& o, Arguments&) {
      const double d = *o.as_real();
      return Value::boolean(std::isfinite(d) && d == std::floor(d));
    });
  return Value();
}

}  // namespace kvcal::jinja
