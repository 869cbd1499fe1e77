// Filters that choose, order and rearrange items.

#include <algorithm>
#include <map>
#include <optional>

#include "jinja/python_text.h"
#include "jinja/runtime.h"

namespace kvcal::jinja {
namespace {

Value length(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("length", a, {});
  return Value::integer(length_of(rt, v));
}

Value default_value(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("default", a, {"default_value", "boolean"});
  const bool missing = v.is_undefined() || (b.flag_or(1, false) && !v.truthy());
  return missing ? b.get_or(0, rt.text("")) : v;
}

// Generators of the reference do nothing before an item is asked for: neither their errors nor their side effects come
// earlier. `next` makes items out of `v` and arguments nested `depth` deep.
template <class Next>
Value lazily(Runtime& rt, const char* filter, const Value& v, int depth, Next&& next) {
  const auto doing = std::string("filter '") + filter + "'";
  return Value::generator(rt, std::max(v.depth(), depth), [&rt, doing, next = std::forward<Next>(next)]() mutable {
    rt.step();
    return while_doing(doing, [&]() -> std::optional<Value> { return next(); });
  });
}

// Items of a value, which is looked at when the first one is asked for. With `if_true`, whatever is false (none, 0) has
// none.
class LateCursor {
 public:
  LateCursor(Budget& budget, Value over, bool if_true = false)
      : budget_(&budget), over_(std::move(over)), if_true_(if_true) {}
  std::optional<Value> next() {
    if (!items_) items_.emplace(*budget_, if_true_ && !over_.truthy() ? Value() : over_);
    return items_->next();
  }

 private:
  Budget* budget_;
  Value over_;
  bool if_true_;
  std::optional<Cursor> items_;
};

Value items(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("items", a, {});
  return lazily(rt, "items", v, 0, [&rt, v, at = size_t{0}]() mutable -> std::optional<Value> {
    if (v.is_undefined()) return std::nullopt;
    const Dict* d = v.as_dict();
    if (!d) fail("can only get item pairs from a mapping, not " + type_name(v));
    if (at == d->items.size()) return std::nullopt;
    const auto& [key, value] = d->items[at++];
    return Value::pair(&rt, key, value);
  });
}

Value list(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("list", a, {});
  return Value::list(iterate(rt, v));
}

Value first(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("first", a, {});
  const auto item = Cursor(rt, v).next();
  return item ? *item : rt.undefined("no first item, sequence was empty");
}

Value last(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("last", a, {});
  const Sequence* s = v.as_sequence();
  if (s && (s->kind == SequenceKind::Generator)) fail("'generator' object is not reversible");
  List all = iterate(rt, v);
  return all.empty() ? rt.undefined("no last item, sequence was empty") : all.back();
}

Value reverse(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("reverse", a, {});
  List all = iterate(rt, v);
  std::reverse(all.begin(), all.end());
  // What has no order backwards becomes a list, the rest an iterator.
  if (const Sequence* s = v.as_sequence(); s && s->kind == SequenceKind::Generator) return Value::list(std::move(all));
  if (!v.as_text())
    return lazily(rt, "reverse", v, 0,
                  [left = LateCursor(rt, Value::list(std::move(all)))]() mutable { return left.next(); });
  PaidText text(rt);
  for (const Value& c : all) text += c.as_text()->text;
  return Value::text(std::move(text));
}

// Sorting and comparing ignore case unless told otherwise.
Value folded(Runtime& rt, const Value& v, bool case_sensitive) {
  if (case_sensitive || !v.as_text()) return v;
  PaidText lower(rt);
  python::lower(lower, v.as_text()->text);
  return Value::text(std::move(lower));
}

// Sort keys of one item: several attributes may be named with commas.
Value sort_key(Runtime& rt, const Value& item, const Value* attribute, bool case_sensitive) {
  if (!attribute) return folded(rt, item, case_sensitive);
  if (!attribute->as_text()) return folded(rt, rt.attribute_path(item, *attribute), case_sensitive);
  List keys(&rt);
  for (const Value& path : python::split(rt, attribute->as_text()->text, ",", -1))
    keys.push_back(folded(rt, rt.attribute_path(item, path), case_sensitive));
  return keys.size() == 1 ? keys[0] : Value::list(std::move(keys));
}

// Stable in both directions, as Python's sort is. Insertion by merge never calls `less` on broken orders in a way that
// could run away: std::stable_sort with an inconsistent order is undefined, so keys that cannot be ordered throw first.
template <class Key>
List sorted(Runtime& rt, const List& all, Key&& key_of, bool reversed, bool keys_are_lists = true) {
  const Held held(&rt, 2 * all.size() * sizeof(std::pair<Value, Value>));  // and what std::stable_sort takes
  std::vector<std::pair<Value, Value>> keyed;
  keyed.reserve(all.size());
  for (const Value& v : all) keyed.emplace_back(key_of(v), v);
  // A key of sort is a list in the reference, and lists compare their first unequal entries: undefined equals
  // undefined there, and less() is not asked.
  const auto less_key = [&](const Value& x, const Value& y) {
    return !(keys_are_lists && x.is_undefined() && y.is_undefined()) && less(rt, x, y);
  };
  for (size_t i = 1; i < keyed.size(); ++i) less_key(keyed[i].first, keyed[0].first);
  const auto before = [&](const auto& x, const auto& y) {
    return reversed ? less_key(y.first, x.first) : less_key(x.first, y.first);
  };
  std::stable_sort(keyed.begin(), keyed.end(), before);
  List out(&rt);
  for (auto& [key, value] : keyed) out.push_back(std::move(value));
  return out;
}

Value sort(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("sort", a, {"reverse", "case_sensitive", "attribute"});
  const Value* attribute = b.is_none_or_missing(2) ? nullptr : &b.at(2);
  const auto key = [&](const Value& item) { return sort_key(rt, item, attribute, b.flag_or(1, false)); };
  return Value::list(sorted(rt, iterate(rt, v), key, b.flag_or(0, false)));
}

Value dictsort(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("dictsort", a, {"case_sensitive", "by", "reverse"});
  const Dict* d = v.as_dict();
  if (!d) fail("needs a dict, not " + type_name(v));
  const std::string_view by = b.text_or(1, "key");
  if (by != "key" && by != "value") fail("you can only sort by either \"key\" or \"value\"");
  List pairs(&rt);
  for (const auto& [key, value] : d->items) pairs.push_back(Value::pair(&rt, key, value));
  const auto key = [&](const Value& pair) {
    return folded(rt, pair.as_sequence()->items[by == "value"], b.flag_or(0, false));
  };
  return Value::list(sorted(rt, pairs, key, b.flag_or(2, false), false));
}

Value unique(Runtime& rt, const Value& v, Arguments& a) {
  const Bound b("unique", a, {"case_sensitive", "attribute"});
  return lazily(rt, "unique", v, b.depth(),
                [&rt, b, left = LateCursor(rt, v), seen = Dict(&rt)]() mutable -> std::optional<Value> {
                  while (auto item = left.next()) {
                    const Value key =
                        sort_key(rt, *item, b.is_none_or_missing(1) ? nullptr : &b.at(1), b.flag_or(0, false));
                    if (seen.find(rt, key)) continue;
                    seen.set(key, Value::none());
                    return item;
                  }
                  return std::nullopt;
                });
}

template <bool Largest>
Value extreme(Runtime& rt, const Value& v, Arguments& a) {
  Bound b(Largest ? "max" : "min", a, {"case_sensitive", "attribute"});
  const Value* attribute = b.is_none_or_missing(1) ? nullptr : &b.at(1);
  Value best = rt.undefined("no aggregated item, sequence was empty");
  Value best_key;
  bool any = false;
  for (Cursor items(rt, v); const auto item = items.next();) {
    const Value key = sort_key(rt, *item, attribute, b.flag_or(0, false));
    if (!any || (Largest ? less(rt, best_key, key) : less(rt, key, best_key))) {
      best = *item;
      best_key = key;
    }
    any = true;
  }
  return best;
}

Value batch(Runtime& rt, const Value& v, Arguments& a) {
  const Bound b("batch", a, {"linecount", "fill_with"});
  const int64_t n = b.integer(0);
  // A row is full when there is an item for the next one; of no items is only the first row of batch(0).
  const auto next = [&rt, b, n, left = LateCursor(rt, v),
                     ahead = std::optional<Value>()]() mutable -> std::optional<Value> {
    List row(&rt);
    if (ahead) row.push_back(*std::exchange(ahead, std::nullopt));
    while (auto item = left.next()) {
      if (static_cast<int64_t>(row.size()) == n) {
        ahead = std::move(item);
        return Value::list(std::move(row));
      }
      row.push_back(std::move(*item));
    }
    if (row.empty()) return std::nullopt;
    if (!b.is_none_or_missing(1))
      while (static_cast<int64_t>(row.size()) < n) row.push_back(b.at(1));
    return Value::list(std::move(row));
  };
  return lazily(rt, "batch", v, b.depth(), next);
}

// Row i of n: the first rows are one longer where the items do not come out even.
Value slice_row(Runtime& rt, const List& all, size_t n, size_t i, const Value* fill) {
  const size_t each = all.size() / n, longer = all.size() % n;
  const size_t begin = i * each + std::min(i, longer), size = each + (i < longer ? 1 : 0);
  List row(&rt);
  for (size_t k = begin; k < begin + size; ++k) row.push_back(all[k]);
  if (fill && longer > 0 && i >= longer) row.push_back(*fill);
  return Value::list(std::move(row));
}

Value slice(Runtime& rt, const Value& v, Arguments& a) {
  const Bound b("slice", a, {"slices", "fill_with"});
  const int64_t n = b.integer(0);
  return lazily(rt, "slice", v, b.depth(),
                [&rt, b, n, v, all = std::optional<List>(), i = size_t{0}]() mutable -> std::optional<Value> {
                  if (!all) all = iterate(rt, v);
                  if (n < 1 || n > 100'000) fail("slices must be from 1 to 100000");
                  if (i == static_cast<size_t>(n)) return std::nullopt;
                  return slice_row(rt, *all, static_cast<size_t>(n), i++, b.is_none_or_missing(1) ? nullptr : &b.at(1));
                });
}

const Value* named_argument(const Arguments& a, const char* name) {
  for (const auto& [key, value] : a.named)
    if (key == name) return &value;
  return nullptr;
}

Arguments without_first(Budget& budget, const Arguments& a, size_t n) {
  Arguments rest(budget);
  for (size_t i = n; i < a.positional.size(); ++i) rest.add(a.positional[i]);
  for (const auto& [name, value] : a.named) rest.add(name, value);
  return rest;
}

Value map_attribute(Runtime& rt, const Value& item, const Arguments& a) {
  const Value* fallback = named_argument(a, "default");
  if (a.named.size() > (fallback ? 2u : 1u)) fail("unexpected argument beside attribute and default");
  return rt.attribute_path(item, *named_argument(a, "attribute"),
                           fallback && !fallback->is_none() ? fallback : nullptr);
}

// map and the select family take whatever is false (none, 0, undefined) as nothing.
Value map(Runtime& rt, const Value& v, Arguments& a) {
  return lazily(rt, "map", v, a.depth(), [&rt, a, left = LateCursor(rt, v, true)]() mutable -> std::optional<Value> {
    const auto item = left.next();
    if (!item) return std::nullopt;
    if (a.positional.empty() && named_argument(a, "attribute")) return map_attribute(rt, *item, a);
    if (a.positional.empty() || !a.positional[0].as_text()) fail("needs the name of a filter, or attribute=...");
    Arguments rest = without_first(rt, a, 1);
    return rt.call_filter(a.positional[0].as_text()->text, *item, rest);
  });
}

template <bool ByAttribute>
bool chosen(Runtime& rt, const Value& item, const Arguments& a) {
  if (ByAttribute && a.positional.empty()) fail("needs the name of an attribute");
  const size_t used = ByAttribute ? 1 : 0;
  const Value subject = ByAttribute ? rt.attribute_path(item, a.positional[0]) : item;
  if (used == a.positional.size()) return subject.truthy();
  const Text* test = a.positional[used].as_text();
  if (!test) fail("the name of the test must be a str");
  Arguments rest = without_first(rt, a, used + 1);
  return rt.call_test(test->text, subject, rest);
}

template <bool Keep, bool ByAttribute>
Value choose(Runtime& rt, const Value& v, Arguments& a) {
  constexpr const char* kName = Keep ? (ByAttribute ? "selectattr" : "select") : ByAttribute ? "rejectattr" : "reject";
  return lazily(rt, kName, v, a.depth(), [&rt, a, left = LateCursor(rt, v, true)]() mutable -> std::optional<Value> {
    while (auto item = left.next())
      if (chosen<ByAttribute>(rt, *item, a) == Keep) return item;
    return std::nullopt;
  });
}

Value attr(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("attr", a, {"name"});
  if (v.as_dict()) {
    Value method = find_method(rt, v, b.text(0));
    return method.is_undefined() ? rt.undefined("'dict object' has no attribute " + quoted(b.text(0))) : method;
  }
  return rt.attribute(v, b.text(0));
}

Value groupby(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("groupby", a, {"attribute", "default", "case_sensitive"});
  const bool case_sensitive = b.flag_or(2, false);
  const Value* fallback = b.is_none_or_missing(1) ? nullptr : &b.at(1);
  const auto grouper = [&](const Value& item) { return rt.attribute_path(item, b.at(0), fallback); };
  const List all = sorted(
      rt, iterate(rt, v), [&](const Value& item) { return folded(rt, grouper(item), case_sensitive); }, false, false);
  List out(&rt), group(&rt);
  for (size_t i = 0; i < all.size(); ++i) {
    group.push_back(all[i]);
    const bool ends = i + 1 == all.size() || !equal(rt, folded(rt, grouper(all[i]), case_sensitive),
                                                    folded(rt, grouper(all[i + 1]), case_sensitive));
    if (!ends) continue;
    Value name = grouper(group[0]);
    out.push_back(Value::group(rt, std::move(name), Value::list(std::exchange(group, List(&rt)))));
  }
  return Value::list(std::move(out));
}

const std::map<std::string, FilterFunction, std::less<>> kSequenceFilters{
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

FilterFunction find_sequence_filter(std::string_view name) {
  const auto it = kSequenceFilters.find(name);
  return it == kSequenceFilters.end() ? nullptr : it->second;
}

std::vector<std::string> sequence_filter_names() {
  std::vector<std::string> names;
  for (const auto& [name, filter] : kSequenceFilters) names.push_back(name);
  return names;
}

}  // namespace kvcal::jinja
