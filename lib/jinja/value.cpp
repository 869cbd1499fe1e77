#include "jinja/value.h"

#include <algorithm>
#include <cmath>

#include "jinja/runtime.h"

namespace kvcal::jinja {
namespace {

constexpr int kDeepestValue = 200;

// Equal keys give equal strings: numbers by value, whatever their type.
std::string key_identity(const Value& key) {
  if (key.as_bool() || key.is_integer()) return "n" + integer_text(key);
  if (const double* d = key.as_real()) {
    if (*d == 0) return "n0";  // also minus zero
    return std::isfinite(*d) && *d == std::floor(*d) ? "n" + digits_of_whole(*d) : "f" + repr_of_real(*d);
  }
  if (const Text* t = key.as_text()) return "s" + t->text;
  if (key.is_none() || key.is_undefined()) return key.is_none() ? "0" : "u";
  const Sequence* s = key.as_sequence();
  if (s && s->kind == SequenceKind::Tuple) {
    std::string all = "t";
    for (const Value& v : s->items) {
      const std::string part = key_identity(v);
      all += std::to_string(part.size()) + ":" + part;
    }
    return all;
  }
  fail("unhashable type: '" + type_name(key) + "'");
}

int checked_depth(int deepest_child) {
  if (deepest_child >= kDeepestValue)
    fail("lists or dicts are nested deeper than " + std::to_string(kDeepestValue) + " levels");
  return deepest_child + 1;
}

bool equal_items(const Values& a, const Values& b) { return std::equal(a.begin(), a.end(), b.begin(), b.end(), equal); }

}  // namespace

const Value* Dict::find(const Value& key) const {
  const auto it = index.find(key_identity(key));
  return it == index.end() ? nullptr : &items[it->second].second;
}

const Value* Dict::find(const char* key) const {
  const auto it = index.find(std::string("s") + key);
  return it == index.end() ? nullptr : &items[it->second].second;
}

void Dict::set(const Value& key, Value value) {
  const auto [it, inserted] = index.try_emplace(key_identity(key), items.size());
  if (inserted)
    items.emplace_back(key, std::move(value));
  else
    items[it->second].second = std::move(value);
}

Value* Namespace::find(std::string_view name) {
  for (auto& [key, value] : attributes)
    if (key == name) return &value;
  return nullptr;
}

Value Value::sequence(SequenceKind kind, Values items, std::string view_name) {
  int deepest = 0;
  for (const Value& v : items) deepest = std::max(deepest, v.depth());
  Sequence s;
  s.kind = kind;
  s.items = std::move(items);
  s.depth = checked_depth(deepest);
  s.view_name = std::move(view_name);
  return Value(std::make_shared<const Sequence>(std::move(s)));
}

Value Value::group(Value grouper, Value members) {
  Sequence s;
  s.kind = SequenceKind::Tuple;
  s.items = {std::move(grouper), std::move(members)};
  s.depth = checked_depth(std::max(s.items[0].depth(), s.items[1].depth()));
  s.is_group = true;
  return Value(std::make_shared<const Sequence>(std::move(s)));
}

Value Value::generator(int depth, std::function<std::optional<Value>()> next) {
  Sequence s;
  s.kind = SequenceKind::Generator;
  s.depth = checked_depth(depth);
  s.next = std::move(next);
  return Value(std::make_shared<const Sequence>(std::move(s)));
}

Value Value::callable(std::string name, std::function<Value(Runtime&, Arguments&)> call) {
  return callable(Callable{std::move(name), std::move(call)});
}

Value Value::callable(Callable c) { return Value(std::make_shared<const Callable>(std::move(c))); }

Value Value::dict(Dict d) {
  int deepest = 0;
  for (const auto& [key, value] : d.items) deepest = std::max({deepest, key.depth(), value.depth()});
  d.depth = checked_depth(deepest);
  return Value(std::make_shared<const Dict>(std::move(d)));
}

Value Value::from_json(const Json& j) {
  if (j.is_null()) return none();
  if (j.is_boolean()) return boolean(j.get<bool>());
  if (j.is_number_unsigned() && j.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
    return integer_of_digits(j.dump());
  if (j.is_binary()) return integer_of_digits(large_integer_digits(j));
  if (j.is_number_integer()) return integer(j.get<int64_t>());
  if (j.is_number_float()) return real(j.get<double>());
  if (j.is_string()) return text(j.get<std::string>());
  if (j.is_array()) {
    Values items;
    for (const Json& item : j) items.push_back(from_json(item));
    return list(std::move(items));
  }
  Dict d;
  for (const auto& [key, value] : j.items()) d.set(text(key), from_json(value));
  return dict(std::move(d));
}

bool Value::to_int(int64_t& out) const {
  if (const bool* b = as_bool()) return out = *b, true;
  if (const int64_t* i = as_int()) return out = *i, true;
  return false;
}

bool Value::to_real(double& out) const {
  int64_t i = 0;
  if (to_int(i)) return out = static_cast<double>(i), true;
  if (const double* d = as_real()) return out = *d, true;
  if (const LargeInteger* large = as_large()) return out = real_of(*large), true;
  return false;
}

bool Value::truthy() const {
  int64_t whole = 0;
  if (to_int(whole)) return whole != 0;
  if (const double* d = as_real()) return *d != 0;
  if (const Text* t = as_text()) return !t->text.empty();
  if (const Sequence* s = as_sequence()) return s->kind == SequenceKind::Generator || !s->items.empty();
  if (const Dict* d = as_dict()) return !d->items.empty();
  return !is_none() && !is_undefined();
}

int Value::depth() const {
  if (const Sequence* s = as_sequence()) return s->depth;
  if (const Dict* d = as_dict()) return d->depth;
  return 0;
}

const void* Value::address() const {
  if (const auto* p = as_text()) return p;
  if (const auto* p = as_sequence()) return p;
  if (const auto* p = as_dict()) return p;
  if (const auto* p = as_namespace()) return p;
  if (const auto* p = as_callable()) return p;
  return as_loop();
}

std::string type_name(const Value& v) {
  if (v.is_undefined()) return "Undefined";
  if (v.is_none()) return "NoneType";
  if (v.as_bool()) return "bool";
  if (v.is_integer()) return "int";
  if (v.as_real()) return "float";
  if (const Text* t = v.as_text()) return t->markup ? "Markup" : "str";
  if (v.as_dict()) return "dict";
  if (v.as_namespace()) return "Namespace";
  if (v.as_callable()) return "function";
  if (v.as_loop()) return "LoopContext";
  const Sequence* s = v.as_sequence();
  switch (s->kind) {
    case SequenceKind::List:
      return "list";
    case SequenceKind::Tuple:
      return "tuple";
    case SequenceKind::Range:
      return "range";
    case SequenceKind::Generator:
      return "generator";
    case SequenceKind::View:
      break;
  }
  return s->view_name;
}

bool equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == 0;
  if (a.as_text() && b.as_text()) return a.as_text()->text == b.as_text()->text;
  if (a.is_none() || b.is_none()) return a.is_none() && b.is_none();
  if (a.is_undefined() || b.is_undefined()) return a.is_undefined() && b.is_undefined();
  const Sequence *s = a.as_sequence(), *t = b.as_sequence();
  if (s && t && s->kind != SequenceKind::Generator)
    return s == t || (s->kind == t->kind && s->view_name == t->view_name && equal_items(s->items, t->items));
  const Dict *d = a.as_dict(), *e = b.as_dict();
  if (d && e) {
    if (d->items.size() != e->items.size()) return false;
    return std::all_of(d->items.begin(), d->items.end(), [&](const auto& item) {
      const Value* other = e->find(item.first);
      return other && equal(item.second, *other);
    });
  }
  return a.address() && a.address() == b.address();
}

bool less(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) < 0;
  // Bytes of UTF-8 sort as code points do.
  if (a.as_text() && b.as_text()) return a.as_text()->text < b.as_text()->text;
  const Sequence *s = a.as_sequence(), *t = b.as_sequence();
  if (s && t && s->kind == t->kind && (s->kind == SequenceKind::List || s->kind == SequenceKind::Tuple)) {
    for (size_t k = 0; k < s->items.size() && k < t->items.size(); ++k)
      if (!equal(s->items[k], t->items[k])) return less(s->items[k], t->items[k]);
    return s->items.size() < t->items.size();
  }
  for (const Value* v : {&a, &b})
    if (v->is_undefined()) fail(v->as_missing()->reason);
  fail("'<' is not supported between '" + type_name(a) + "' and '" + type_name(b) + "'");
}

}  // namespace kvcal::jinja
