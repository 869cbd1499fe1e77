#include "jinja/value.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "jinja/loop.h"

namespace kvcal::jinja {
namespace {

constexpr int kDeepestValue = 200;

size_t size_of(const Value& plain) {
  if (const Text* t = plain.as_text()) return t->text.size();
  if (const LargeInteger* large = plain.as_large()) return large->digits.size();
  return 1;
}

// An integer and a double are compared by their digits.
size_t steps_to_compare(const Value& a, const Value& b) {
  const bool by_digits = a.is_number() && b.is_number() && (a.as_real() == nullptr) != (b.as_real() == nullptr);
  return kValueSteps + std::min(size_of(a), size_of(b)) + (by_digits ? kRealSteps : 0);
}

void append_number(std::string& out, char mark, std::string_view text) {
  out += mark;
  out += text;
}

// Equal keys give equal strings: numbers by value, whatever their type. A key inside another has its length before it.
void append_identity(Held& held, std::string& out, const Value& key) {
  if (Budget* payer = held.payer()) payer->step(kValueSteps + size_of(key));
  if (key.as_bool() || key.is_integer()) return append_number(out, 'n', integer_text(key));
  if (const double* d = key.as_real()) {
    if (held.payer()) held.payer()->step(kRealSteps);
    if (*d == 0) return append_number(out, 'n', "0");  // also minus zero
    if (std::isfinite(*d) && *d == std::floor(*d)) return append_number(out, 'n', digits_of_whole(*d));
    return append_number(out, 'f', repr_of_real(*d));
  }
  if (key.is_none() || key.is_undefined()) return append_number(out, key.is_none() ? '0' : 'u', "");
  if (const Text* t = key.as_text()) {
    held.grow(t->text.size());
    return append_number(out, 's', t->text);
  }
  const Sequence* s = key.as_sequence();
  if (!s || s->kind != SequenceKind::Tuple) fail("unhashable type: '" + type_name(key) + "'");
  out += 't';
  for (const Value& v : s->items) {
    std::string part;
    Held part_held(held.payer(), 0);
    append_identity(part_held, part, v);
    held.grow(part.size() + 24);
    out += std::to_string(part.size()) + ":" + part;
  }
}

int checked_depth(int deepest_child) {
  if (deepest_child >= kDeepestValue)
    fail("lists or dicts are nested deeper than " + std::to_string(kDeepestValue) + " levels");
  return deepest_child + 1;
}

bool equal_items(Budget& budget, const Values& a, const Values& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](const Value& x, const Value& y) { return equal(budget, x, y); });
}

constexpr size_t kEntryBytes = 160;  // of a dict: a pair of values, and a node of the index

}  // namespace

const Value* Dict::find(Budget& budget, const Value& key) const {
  Held looked_for(&budget, 0);
  std::string identity;
  append_identity(looked_for, identity, key);
  const auto it = index.find(identity);
  return it == index.end() ? nullptr : &items[it->second].second;
}

const Value* Dict::find(std::string_view key) const {
  const auto it = index.find("s" + std::string(key));
  return it == index.end() ? nullptr : &items[it->second].second;
}

void Dict::set(const Value& key, Value value) {
  std::string identity;
  append_identity(held, identity, key);
  held.grow(kEntryBytes);
  const auto [it, inserted] = index.try_emplace(std::move(identity), items.size());
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

void Namespace::set(const std::string& name, Value value) {
  if (Value* known = find(name)) {
    *known = std::move(value);
  } else {
    held.grow(name.size() + 2 * sizeof(attributes[0]));
    attributes.emplace_back(name, std::move(value));
  }
}

void List::reserve(size_t n) {
  if (n <= values_.capacity()) return;
  if (Budget* payer = held_.payer()) payer->check_size(n * sizeof(Value));
  held_.grow((n - values_.capacity()) * sizeof(Value));
  values_.reserve(n);
}

Value Value::undefined(Budget* payer, std::string reason) {
  Held held(payer, sizeof(Missing) + reason.size());
  return Value(std::make_shared<const Missing>(Missing{std::move(held), std::move(reason)}));
}

Value Value::text(Budget* payer, std::string_view s, bool markup) {
  if (payer) payer->check_size(s.size());
  Held held(payer, sizeof(Text) + s.size());
  return Value(std::make_shared<const Text>(Text{std::move(held), std::string(s), markup}));
}

Value Value::text(PaidText s, bool markup) {
  auto [text, held] = s.take();
  held.grow(sizeof(Text));
  return Value(std::make_shared<const Text>(Text{std::move(held), std::move(text), markup}));
}

Value Value::sequence(SequenceKind kind, List items, std::string view_name) {
  int deepest = 0;
  for (const Value& v : items) deepest = std::max(deepest, v.depth());
  Sequence s;
  std::tie(s.held, s.items) = items.take();
  s.held.grow(sizeof(Sequence));
  s.kind = kind;
  s.depth = checked_depth(deepest);
  s.view_name = std::move(view_name);
  return Value(std::make_shared<const Sequence>(std::move(s)));
}

Value Value::list(List items) { return sequence(SequenceKind::List, std::move(items)); }
Value Value::tuple(List items) { return sequence(SequenceKind::Tuple, std::move(items)); }

Value Value::pair(Budget* payer, Value first, Value second) {
  List two(payer);
  two.reserve(2);
  two.push_back(std::move(first));
  two.push_back(std::move(second));
  return tuple(std::move(two));
}

Value Value::group(Budget& payer, Value grouper, Value members) {
  Sequence s;
  s.held = Held(&payer, sizeof(Sequence));
  s.kind = SequenceKind::Tuple;
  s.items = {std::move(grouper), std::move(members)};
  s.depth = checked_depth(std::max(s.items[0].depth(), s.items[1].depth()));
  s.is_group = true;
  return Value(std::make_shared<const Sequence>(std::move(s)));
}

Value Value::generator(Budget& payer, int depth, std::function<std::optional<Value>()> next) {
  Sequence s;
  s.held = Held(&payer, sizeof(Sequence) + 512);  // about what it captures
  s.kind = SequenceKind::Generator;
  s.depth = checked_depth(depth);
  s.next = std::move(next);
  return Value(std::make_shared<const Sequence>(std::move(s)));
}

Value Value::callable(Budget& payer, std::string name, std::function<Value(Runtime&, Arguments&)> call, int depth) {
  Callable c;
  c.held = Held(&payer, sizeof(Callable) + name.size() + 64);  // and what it captures
  c.name = std::move(name);
  c.call = std::move(call);
  c.depth = checked_depth(depth);
  return callable(std::move(c));
}

Value Value::callable(Callable c) { return Value(std::make_shared<const Callable>(std::move(c))); }

Value Value::dict(Dict d) {
  int deepest = 0;
  for (const auto& [key, value] : d.items) deepest = std::max({deepest, key.depth(), value.depth()});
  d.held.grow(sizeof(Dict));
  d.depth = checked_depth(deepest);
  return Value(std::make_shared<const Dict>(std::move(d)));
}

Value Value::from_json(const Json& j, Budget* payer) {
  if (payer) payer->step();
  if (j.is_null()) return none();
  if (j.is_boolean()) return boolean(j.get<bool>());
  if (j.is_number_unsigned() && j.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
    return integer_of_digits(payer, j.dump());
  if (j.is_binary()) return integer_of_digits(payer, large_integer_digits(j));
  if (j.is_number_integer()) return integer(j.get<int64_t>());
  if (j.is_number_float()) return real(j.get<double>());
  if (j.is_string()) return text(payer, j.get_ref<const std::string&>());
  if (j.is_array()) {
    List items(payer);
    items.reserve(j.size());
    for (const Json& item : j) items.push_back(from_json(item, payer));
    return list(std::move(items));
  }
  Dict d(payer);
  for (const auto& [key, value] : j.items()) d.set(text(payer, key), from_json(value, payer));
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
  if (const Callable* c = as_callable()) return c->depth;
  if (const LoopState* l = as_loop()) return l->nesting();
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

bool equal(Budget& budget, const Value& a, const Value& b) {
  budget.step(steps_to_compare(a, b));
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == 0;
  if (a.as_text() && b.as_text()) return a.as_text()->text == b.as_text()->text;
  if (a.is_none() || b.is_none()) return a.is_none() && b.is_none();
  if (a.is_undefined() || b.is_undefined()) return a.is_undefined() && b.is_undefined();
  const Sequence *s = a.as_sequence(), *t = b.as_sequence();
  if (s && t && s->kind != SequenceKind::Generator)
    return s == t || (s->kind == t->kind && s->view_name == t->view_name && equal_items(budget, s->items, t->items));
  const Dict *d = a.as_dict(), *e = b.as_dict();
  if (d && e) {
    if (d->items.size() != e->items.size()) return false;
    return std::all_of(d->items.begin(), d->items.end(), [&](const auto& item) {
      const Value* other = e->find(budget, item.first);
      return other && equal(budget, item.second, *other);
    });
  }
  return a.address() && a.address() == b.address();
}

bool less(Budget& budget, const Value& a, const Value& b) {
  budget.step(steps_to_compare(a, b));
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) < 0;
  // Bytes of UTF-8 sort as code points do.
  if (a.as_text() && b.as_text()) return a.as_text()->text < b.as_text()->text;
  const Sequence *s = a.as_sequence(), *t = b.as_sequence();
  if (s && t && s->kind == t->kind && (s->kind == SequenceKind::List || s->kind == SequenceKind::Tuple)) {
    for (size_t k = 0; k < s->items.size() && k < t->items.size(); ++k)
      if (!equal(budget, s->items[k], t->items[k])) return less(budget, s->items[k], t->items[k]);
    return s->items.size() < t->items.size();
  }
  for (const Value* v : {&a, &b})
    if (v->is_undefined()) fail(v->as_missing()->reason);
  fail("'<' is not supported between '" + type_name(a) + "' and '" + type_name(b) + "'");
}

}  // namespace kvcal::jinja
