// Filters that choose, order and rearrange items.

#include <algorithm>
#include <map>

#include "text/jinja_runtime.h"
#include "text/python_text.h"

namespace kvcal::jinja {
namespace {

Value length(Runtime&, const Value& v, Arguments& a) {
  Bound b("length", a, {});
  return Value::integer(length_of(v));
}

Value default_value(Runtime&, const Value& v, Arguments& a) {
  Bound b("default", a, {"default_value", "boolean"});
  const bool missing = v.is_undefined() || (b.flag_or(1, false) && !v.truthy());
  return missing ? b.get_or(0, Value::text("")) : v;
}

Value items(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("items", a, {});
  if (v.is_undefined()) return Value::generator({});
  const Dict* d = v.as_dict();
  if (!d) fail("can only get item pairs from a mapping, not " + type_name(v));
  Values pairs;
  for (const auto& [key, value] : d->items) pairs.push_back(Value::tuple({key, value}));
  return rt.list(std::move(pairs), SequenceKind::Generator);
}

Value list(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("list", a, {});
  return rt.list(iterate(v));
}

Value first(Runtime&, const Value& v, Arguments& a) {
  Bound b("first", a, {});
  const Values all = iterate(v);
  return all.empty() ? Value::undefined("no first item, sequence was empty") : all.front();
}

Value last(Runtime&, const Value& v, Arguments& a) {
  Bound b("last", a, {});
  const Sequence* s = v.as_sequence();
  if (s && (s->kind == SequenceKind::Generator)) fail("'generator' object is not reversible");
  const Values all = iterate(v);
  return all.empty() ? Value::undefined("no last item, sequence was empty") : all.back();
}

Value reverse(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("reverse", a, {});
  Values all = iterate(v);
  std::reverse(all.begin(), all.end());
  if (!v.as_text()) return rt.list(std::move(all), SequenceKind::Generator);
  std::string text;
  for (const Value& c : all) text += to_str(c);
  return rt.text(std::move(text));
}

// Sorting and comparing ignore case unless told otherwise.
Value folded(const Value& v, bool case_sensitive) {
  return !case_sensitive && v.as_text() ? Value::text(python::lower(v.as_text()->text)) : v;
}

// Sort keys of one item: several attributes may be named with commas.
Value sort_key(Runtime& rt, const Value& item, const Value* attribute, bool case_sensitive) {
  if (!attribute) return folded(item, case_sensitive);
  if (!attribute->as_text()) return folded(rt.attribute_path(item, *attribute), case_sensitive);
  Values keys;
  for (const std::string& path : python::split(attribute->as_text()->text, ",", -1))
    keys.push_back(folded(rt.attribute_path(item, Value::text(path)), case_sensitive));
  return keys.size() == 1 ? keys[0] : Value::list(std::move(keys));
}

// Stable in both directions, as Python's sort is. Insertion by merge never calls `less` on broken orders in a way that
// could run away: std::stable_sort with an inconsistent order is undefined, so keys that cannot be ordered throw first.
Values sorted(Runtime& rt, const Values& all, const Value* attribute, bool case_sensitive, bool reversed,
              bool keys_are_lists = true) {
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& v : all) keyed.emplace_back(sort_key(rt, v, attribute, case_sensitive), v);
  // A key of sort is a list in the reference, and lists compare their first unequal entries: undefined equals
  // undefined there, and less() is not asked.
  const auto less_key = [&](const Value& x, const Value& y) {
    return !(keys_are_lists && x.is_undefined() && y.is_undefined()) && less(x, y);
  };
  for (size_t i = 1; i < keyed.size(); ++i) less_key(keyed[i].first, keyed[0].first);
  const auto before = [&](const auto& x, const auto& y) {
    rt.step();
    return reversed ? less_key(y.first, x.first) : less_key(x.first, y.first);
  };
  std::stable_sort(keyed.begin(), keyed.end(), before);
  Values out;
  for (auto& [key, value] : keyed) out.push_back(std::move(value));
  return out;
}

Value sort(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("sort", a, {"reverse", "case_sensitive", "attribute"});
  const Value* attribute = b.is_none_or_missing(2) ? nullptr : &b.at(2);
  return rt.list(sorted(rt, iterate(v), attribute, b.flag_or(1, false), b.flag_or(0, false)));
}

Value dictsort(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("dictsort", a, {"case_sensitive", "by", "reverse"});
  const Dict* d = v.as_dict();
  if (!d) fail("needs a dict, not " + type_name(v));
  const std::string by = b.text_or(1, "key");
  if (by != "key" && by != "value") fail("you can only sort by either \"key\" or \"value\"");
  Values pairs;
  for (const auto& [key, value] : d->items) pairs.push_back(Value::tuple({key, value}));
  const Value position = Value::integer(by == "key" ? 0 : 1);
  return rt.list(sorted(rt, pairs, &position, b.flag_or(0, false), b.flag_or(2, false), false));
}

Value unique(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("unique", a, {"case_sensitive", "attribute"});
  Dict seen;
  Values out;
  for (const Value& item : iterate(v)) {
    const Value key = sort_key(rt, item, b.is_none_or_missing(1) ? nullptr : &b.at(1), b.flag_or(0, false));
    if (seen.find(key)) continue;
    seen.set(key, Value::none());
    out.push_back(item);
  }
  return rt.list(std::move(out), SequenceKind::Generator);
}

template <bool Largest>
Value extreme(Runtime& rt, const Value& v, Arguments& a) {
  Bound b(Largest ? "max" : "min", a, {"case_sensitive", "attribute"});
  const Value* attribute = b.is_none_or_missing(1) ? nullptr : &b.at(1);
  Value best = Value::undefined("no aggregated item, sequence was empty");
  Value best_key;
  bool any = false;
  for (const Value& item : iterate(v)) {
    const Value key = sort_key(rt, item, attribute, b.flag_or(0, false));
    if (!any || (Largest ? less(best_key, key) : less(key, best_key))) {
      best = item;
      best_key = key;
    }
    any = true;
  }
  return best;
}

Value batch(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("batch", a, {"linecount", "fill_with"});
  const int64_t n = b.integer(0);
  Values out, row;
  for (const Value& item : iterate(v)) {
    if (static_cast<int64_t>(row.size()) == n) {
      out.push_back(rt.list(std::move(row)));
      row.clear();
    }
    row.push_back(item);
  }
  if (!row.empty()) {
    if (!b.is_none_or_missing(1) && n > 0) {
      rt.charge(static_cast<size_t>(n) * sizeof(Value));
      while (static_cast<int64_t>(row.size()) < n) row.push_back(b.at(1));
    }
    out.push_back(rt.list(std::move(row)));
  }
  return rt.list(std::move(out), SequenceKind::Generator);
}

Value slice(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("slice", a, {"slices", "fill_with"});
  const int64_t n = b.integer(0);
  if (n < 1 || n > 100'000) fail("slices must be from 1 to 100000");
  const Values all = iterate(v);
  const auto parts = static_cast<size_t>(n);
  const size_t each = all.size() / parts, longer = all.size() % parts;
  Values out;
  size_t at = 0;
  for (size_t i = 0; i < parts; ++i) {
    const size_t size = each + (i < longer ? 1 : 0);
    Values row(all.begin() + static_cast<ptrdiff_t>(at), all.begin() + static_cast<ptrdiff_t>(at + size));
    if (!b.is_none_or_missing(1) && longer > 0 && i >= longer) row.push_back(b.at(1));
    out.push_back(rt.list(std::move(row)));
    at += size;
  }
  return rt.list(std::move(out), SequenceKind::Generator);
}

// map and the select family take whatever is false (none, 0, undefined) as nothing.
Values iterate_if_true(const Value& v) { return v.truthy() ? iterate(v) : Values(); }

Value map(Runtime& rt, const Value& v, Arguments& a) {
  const auto named = [&](const char* name) -> const Value* {
    for (const auto& [key, value] : a.named)
      if (key == name) return &value;
    return nullptr;
  };
  Values out;
  if (a.positional.empty() && named("attribute")) {
    const Value path = *named("attribute");
    const Value* fallback = named("default");
    if (a.named.size() > (fallback ? 2u : 1u)) fail("map: unexpected argument beside attribute and default");
    for (const Value& item : iterate_if_true(v)) {
      Value got = rt.attribute_path(item, path);
      out.push_back(got.is_undefined() && fallback ? *fallback : std::move(got));
    }
  } else {
    if (a.positional.empty() || !a.positional[0].as_text()) fail("map needs the name of a filter, or attribute=...");
    Arguments rest;
    rest.positional.assign(a.positional.begin() + 1, a.positional.end());
    rest.named = a.named;
    for (const Value& item : iterate_if_true(v))
      out.push_back(rt.call_filter(a.positional[0].as_text()->text, item, rest));
  }
  return rt.list(std::move(out), SequenceKind::Generator);
}

template <bool Keep, bool ByAttribute>
Value choose(Runtime& rt, const Value& v, Arguments& a) {
  size_t used = 0;
  if (ByAttribute && a.positional.empty()) fail("needs the name of an attribute");
  const Value path = ByAttribute ? a.positional[used++] : Value();
  std::string test;
  if (used < a.positional.size()) {
    const Text* t = a.positional[used++].as_text();
    if (!t) fail("the name of the test must be a str");
    test = t->text;
  }
  Arguments rest;
  rest.positional.assign(a.positional.begin() + static_cast<ptrdiff_t>(used), a.positional.end());
  rest.named = a.named;
  Values out;
  for (const Value& item : iterate_if_true(v)) {
    const Value subject = ByAttribute ? rt.attribute_path(item, path) : item;
    const bool holds = test.empty() ? subject.truthy() : rt.call_test(test, subject, rest);
    if (holds == Keep) out.push_back(item);
  }
  return rt.list(std::move(out), SequenceKind::Generator);
}

Value attr(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("attr", a, {"name"});
  if (v.as_dict()) {
    Value method = find_method(v, b.text(0));
    return method.is_undefined() ? Value::undefined("'dict object' has no attribute " + quoted(b.text(0))) : method;
  }
  return rt.attribute(v, b.text(0));
}

Value groupby(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("groupby", a, {"attribute", "default", "case_sensitive"});
  const bool case_sensitive = b.flag_or(2, false);
  const Values all = sorted(rt, iterate(v), &b.at(0), case_sensitive, false, false);
  Values out, group;
  const auto grouper = [&](const Value& item) { return rt.attribute_path(item, b.at(0)); };
  for (size_t i = 0; i < all.size(); ++i) {
    group.push_back(all[i]);
    const bool ends = i + 1 == all.size() ||
                      !equal(folded(grouper(all[i]), case_sensitive), folded(grouper(all[i + 1]), case_sensitive));
    if (!ends) continue;
    out.push_back(Value::tuple({grouper(group[0]), rt.list(std::move(group))}));
    group.clear();
  }
  return rt.list(std::move(out));
}

const std::map<std::string, Filter, std::less<>> kFilters{
    {"length", length},
    {"count", length},
    {"default", default_value},
    {"d", default_value},
    {"items", items},
    {"list", list},
    {"first", first},
    {"last", last},
    {"reverse", reverse},
    {"sort", sort},
    {"dictsort", dictsort},
    {"unique", unique},
    {"min", extreme<false>},
    {"max", extreme<true>},
    {"batch", batch},
    {"slice", slice},
    {"map", map},
    {"select", choose<true, false>},
    {"reject", choose<false, false>},
    {"selectattr", choose<true, true>},
    {"rejectattr", choose<false, true>},
    {"attr", attr},
    {"groupby", groupby},
};

}  // namespace

Filter find_sequence_filter(std::string_view name) {
  const auto it = kFilters.find(name);
  return it == kFilters.end() ? nullptr : it->second;
}

std::vector<std::string> sequence_filter_names() {
  std::vector<std::string> names;
  for (const auto& [name, filter] : kFilters) names.push_back(name);
  return names;
}

}  // namespace kvcal::jinja
