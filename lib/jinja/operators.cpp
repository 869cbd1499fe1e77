// Operators, attributes, items and slices.

#include <cmath>

#include "jinja/loop.h"
#include "jinja/python_text.h"
#include "jinja/runtime.h"
#include "unicode/utf8.h"

namespace kvcal::jinja {
namespace {

[[noreturn]] void fail_operands(const std::string& op, const Value& a, const Value& b) {
  for (const Value* v : {&a, &b})
    if (v->is_undefined()) fail_undefined(*v);
  fail("unsupported operand types for " + op + ": '" + type_name(a) + "' and '" + type_name(b) + "'");
}

[[noreturn]] void fail_overflow(const std::string& op) {
  fail("integer overflow in " + op + ": integers have 64 bits here, any size in Python");
}

// Sums of integers beyond 64 bits are refused, rather than rounded.
void refuse_large(const std::string& op, const Value& a, const Value& b) {
  for (const Value* v : {&a, &b})
    if (v->as_large() && !a.as_real() && !b.as_real())
      fail("'" + op + "' on integer " + integer_text(*v) +
           ": integers of more than 64 bits are printed and compared only");
}

int64_t floor_divide(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

int64_t power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  for (;; exponent /= 2) {
    if (exponent % 2 && __builtin_mul_overflow(result, base, &result)) fail_overflow("**");
    if (exponent <= 1) return result;
    if (__builtin_mul_overflow(base, base, &base)) fail_overflow("**");
  }
}

Value integer_operation(const std::string& op, int64_t a, int64_t b) {
  int64_t r = 0;
  if (op == "+") {
    if (__builtin_add_overflow(a, b, &r)) fail_overflow(op);
  } else if (op == "-") {
    if (__builtin_sub_overflow(a, b, &r)) fail_overflow(op);
  } else if (op == "*") {
    if (__builtin_mul_overflow(a, b, &r)) fail_overflow(op);
  } else if (op == "**") {
    if (a == 0 && b < 0) fail("zero cannot be raised to a negative power");
    if (b < 0) return Value::real(std::pow(static_cast<double>(a), static_cast<double>(b)));
    r = power(a, b);
  } else {
    if (b == 0) fail("division by zero");
    if (op == "/") return Value::real(static_cast<double>(a) / static_cast<double>(b));
    if (a == INT64_MIN && b == -1) fail_overflow(op);
    const int64_t q = floor_divide(a, b);
    r = op == "//" ? q : a - q * b;
  }
  return Value::integer(r);
}

// The remainder has the sign of the divisor, also when it is zero; the quotient is rounded down.
Value floor_operation(const std::string& op, double a, double b) {
  double remainder = std::fmod(a, b);
  double quotient = (a - remainder) / b;
  if (remainder == 0) {
    remainder = std::copysign(0.0, b);
  } else if ((remainder < 0) != (b < 0)) {
    remainder += b;
    quotient -= 1;
  }
  if (op == "%") return Value::real(remainder);
  if (quotient == 0) return Value::real(std::copysign(0.0, a / b));
  const double down = std::floor(quotient);
  return Value::real(quotient - down > 0.5 ? down + 1 : down);
}

Value real_power(double a, double b) {
  if (a == 0 && b < 0) fail("zero cannot be raised to a negative power");
  if (a < 0 && std::isfinite(a) && std::isfinite(b) && b != std::floor(b))
    fail("a negative number to a power with a fraction is a complex number, which is not supported");
  const double power = std::pow(a, b);
  if (std::isinf(power) && std::isfinite(a) && std::isfinite(b)) fail("**: numerical result out of range");
  return Value::real(power);
}

Value real_operation(const std::string& op, double a, double b) {
  if (op == "+") return Value::real(a + b);
  if (op == "-") return Value::real(a - b);
  if (op == "*") return Value::real(a * b);
  if (op == "**") return real_power(a, b);
  if (b == 0) fail("float division by zero");
  if (op == "/") return Value::real(a / b);
  return floor_operation(op, a, b);
}

Value repeated(Runtime& rt, const Value& sequence, int64_t wanted) {
  const auto times = static_cast<size_t>(std::max<int64_t>(wanted, 0));
  if (const Text* t = sequence.as_text()) {
    PaidText out(rt);
    out.repeat(t->text, times);
    return Value::text(std::move(out));
  }
  const Sequence* s = sequence.as_sequence();
  const size_t n = s->items.size();
  List out(&rt);
  if (n > 0) {
    if (times > rt.limits().max_output_bytes / n) rt.check_size(SIZE_MAX);
    out.reserve(n * times);
    for (size_t i = 0; i < times; ++i)
      for (const Value& v : s->items) out.push_back(v);
  }
  return Value::sequence(s->kind, std::move(out));
}

bool repeats(const Value& v) {
  const Sequence* s = v.as_sequence();
  return v.as_text() || (s && (s->kind == SequenceKind::List || s->kind == SequenceKind::Tuple));
}

Value add_text(Runtime& rt, const Text& a, const Text& b) {
  PaidText out(rt);
  for (const Text* t : {&a, &b}) {
    if (a.markup != b.markup && !t->markup)
      append_html_escaped(out, t->text);  // marked-up text escapes what is added to it
    else
      out += t->text;
  }
  return Value::text(std::move(out), a.markup || b.markup);
}

Value add_lists(Runtime& rt, const Sequence& a, const Sequence& b) {
  List both(&rt);
  both.reserve(a.items.size() + b.items.size());
  for (const Sequence* s : {&a, &b})
    for (const Value& v : s->items) both.push_back(v);
  return Value::sequence(a.kind, std::move(both));
}

// Start, stop and step of a slice over n items, as Python adjusts them.
struct Range {
  int64_t start, stop, step;
};

int64_t slice_index(const Value& v, int64_t fallback, const char* what) {
  int64_t i = fallback;
  if (v.is_none()) return i;
  if (v.is_undefined()) fail_undefined(v);
  // Both ends of the 64 bits lie beyond every sequence.
  if (const LargeInteger* large = v.as_large()) return large->negative ? INT64_MIN : INT64_MAX;
  if (!v.to_int(i)) fail(std::string("slice ") + what + " is " + type_name(v) + ", expected int or none");
  return i;
}

Range adjust(int64_t n, const Value& start, const Value& stop, const Value& step) {
  const int64_t s = slice_index(step, 1, "step");
  if (s == 0) fail("slice step cannot be zero");
  const int64_t low = s < 0 ? -1 : 0, high = s < 0 ? n - 1 : n;
  const auto clamp = [&](int64_t i) { return i < 0 ? (i < -n ? low : std::max(i + n, low)) : std::min(i, high); };
  const int64_t a = start.is_none() ? (s < 0 ? high : low) : clamp(slice_index(start, 0, "start"));
  const int64_t b = stop.is_none() ? (s < 0 ? -1 : n) : clamp(slice_index(stop, 0, "stop"));
  return {a, b, s};
}

template <class Take>
void walk(const Range& r, Take&& take) {
  if (r.step > 0)
    for (int64_t i = r.start; i<r.stop; i = r.step> r.stop - i ? r.stop : i + r.step) take(static_cast<size_t>(i));
  else
    for (int64_t i = r.start; i > r.stop; i = -(r.step + 1) >= i - r.stop ? r.stop : i + r.step)
      take(static_cast<size_t>(i));
}

std::string object_name(const Value& object) { return type_name(object) + " object"; }

Value missing_attribute(Runtime& rt, const Value& object, const std::string& name) {
  return rt.undefined("'" + object_name(object) + "' has no attribute " + quoted(name));
}

// x[i] with an integer, or nothing.
const Value* indexed(const Sequence& s, int64_t i) {
  const auto n = static_cast<int64_t>(s.items.size());
  if (s.kind == SequenceKind::Generator || s.kind == SequenceKind::View) return nullptr;
  if (i < 0) i += n;
  return i >= 0 && i < n ? &s.items[static_cast<size_t>(i)] : nullptr;
}

std::string_view character_at(Budget& budget, std::string_view text, size_t i) {
  budget.steps(text.size(), 4);
  size_t at = 0;
  for (; i > 0; --i) at += utf8_length(text[at]);
  return text.substr(at, utf8_length(text[at]));
}

Value slice_of_text(Runtime& rt, std::string_view text, const Value& start, const Value& stop, const Value& step) {
  const Held held(&rt, 4 * text.size());
  rt.steps(text.size(), 16);
  const std::u32string codes = to_code_points(text);
  PaidText out(rt);
  std::string character;
  walk(adjust(static_cast<int64_t>(codes.size()), start, stop, step), [&](size_t i) {
    character.clear();
    append_utf8(character, codes[i]);
    out += character;
  });
  return Value::text(std::move(out));
}

}  // namespace

Value Runtime::attribute(const Value& object, const std::string& name) {
  step();
  if (object.is_undefined()) fail_undefined(object);
  if (name.starts_with("__"))
    return undefined("access to attribute '" + name + "' of '" + type_name(object) + "' object is unsafe");
  if (LoopState* l = object.as_loop()) return l->attribute(*this, name);
  if (Namespace* n = object.as_namespace()) {
    steps(n->attributes.size(), 4);
    const Value* v = n->find(name);
    return v ? *v : missing_attribute(*this, object, name);
  }
  if (const Callable* c = object.as_callable())
    for (const auto& [key, value] : c->attributes)
      if (key == name) return value;
  if (const Sequence* s = object.as_sequence(); s && s->is_group && (name == "grouper" || name == "list"))
    return s->items[name == "list"];
  if (Value method = find_method(*this, object, name); !method.is_undefined() || !method.as_missing()->reason.empty())
    return method;
  if (const Dict* d = object.as_dict())
    if (const Value* v = d->find(name)) return *v;
  return missing_attribute(*this, object, name);
}

Value Runtime::item(const Value& object, const Value& key) {
  step();
  if (object.is_undefined()) fail_undefined(object);
  int64_t i = 0;
  if (const Dict* d = object.as_dict()) {
    const Sequence* s = key.as_sequence();
    if (!key.is_undefined() && !key.as_dict() && !(s && s->kind != SequenceKind::Tuple))
      if (const Value* v = d->find(*this, key)) return *v;
  } else if (const Sequence* s = object.as_sequence(); s && key.to_int(i)) {
    if (const Value* v = indexed(*s, i)) return *v;
  } else if (const Text* t = object.as_text(); t && key.to_int(i)) {
    const auto n = static_cast<int64_t>(python::length(*this, t->text));
    if (i < 0) i += n;
    if (i >= 0 && i < n) return text(character_at(*this, t->text, static_cast<size_t>(i)));
  }
  if (const Text* name = key.as_text()) {
    if (object.as_dict()) {
      Value method = find_method(*this, object, name->text);
      return method.is_undefined() && method.as_missing()->reason.empty() ? missing_attribute(*this, object, name->text)
                                                                          : method;
    }
    return attribute(object, name->text);
  }
  return undefined(object_name(object) + " has no element " + brief_repr(*this, key));
}

Value Runtime::slice(const Value& object, const Value& start, const Value& stop, const Value& step_value) {
  step();
  if (object.is_undefined()) fail_undefined(object);
  if (const Text* t = object.as_text()) return slice_of_text(*this, t->text, start, stop, step_value);
  const Sequence* s = object.as_sequence();
  if (!s || s->kind == SequenceKind::Generator || s->kind == SequenceKind::View)
    fail("'" + object_name(object) + "' cannot be sliced");
  List out(this);
  walk(adjust(static_cast<int64_t>(s->items.size()), start, stop, step_value),
       [&](size_t i) { out.push_back(s->items[i]); });
  return Value::sequence(s->kind == SequenceKind::Range ? SequenceKind::List : s->kind, std::move(out));
}

Value Runtime::binary(const std::string& op, const Value& a, const Value& b) {
  step();
  if (op == "~") {
    PaidText both(*this);
    append_str(both, a);
    append_str(both, b);
    return Value::text(std::move(both));
  }
  int64_t i = 0, j = 0;
  double x = 0, y = 0;
  if (a.to_int(i) && b.to_int(j)) return integer_operation(op, i, j);
  if (!(op == "%" && a.as_text())) refuse_large(op, a, b);
  if (a.to_real(x) && b.to_real(y)) return real_operation(op, x, y);
  if (op == "+") {
    if (a.as_text() && b.as_text()) return add_text(*this, *a.as_text(), *b.as_text());
    const Sequence *s = a.as_sequence(), *t = b.as_sequence();
    if (s && t && s->kind == t->kind && repeats(a)) return add_lists(*this, *s, *t);
  }
  if (op == "*" && repeats(a) && b.to_int(j)) return repeated(*this, a, j);
  if (op == "*" && repeats(b) && a.to_int(i)) return repeated(*this, b, i);
  if (op == "%" && a.as_text()) return format_percent(*this, a.as_text()->text, b);
  fail_operands(op, a, b);
}

Value Runtime::negative(const Value& v) {
  int64_t i = 0;
  if (v.as_large() || (v.to_int(i) && i == INT64_MIN)) {
    const std::string text = integer_text(v);
    return Value::integer_of_digits(this, text.starts_with('-') ? text.substr(1) : "-" + text);
  }
  if (v.to_int(i)) return integer_operation("-", 0, i);
  if (const double* d = v.as_real()) return Value::real(-*d);
  if (v.is_undefined()) fail_undefined(v);
  fail("bad operand type for unary -: '" + type_name(v) + "'");
}

bool Runtime::compare(const std::string& op, const Value& a, const Value& b) {
  step();
  if (op == "==") return equal(*this, a, b);
  if (op == "!=") return !equal(*this, a, b);
  if (op == "<") return less(*this, a, b);
  if (op == ">") return less(*this, b, a);
  if ((op == "<=" || op == ">=") && a.is_number() && b.is_number()) {
    const auto order = compare_numbers(a, b);  // NaN: neither <= nor >=
    return op == "<=" ? order <= 0 : order >= 0;
  }
  if (op == "<=") return !less(*this, b, a);
  if (op == ">=") return !less(*this, a, b);
  return contains(b, a) == (op == "in");
}

bool Runtime::contains(const Value& container, const Value& v) {
  step();
  if (const Text* t = container.as_text()) {
    if (v.is_undefined()) fail_undefined(v);
    if (!v.as_text()) fail("'in <string>' requires string as left operand, not " + type_name(v));
    return python::find(*this, t->text, v.as_text()->text) != std::string::npos;
  }
  if (const Dict* d = container.as_dict()) return !v.is_undefined() && d->find(*this, v) != nullptr;
  if (Namespace* n = container.as_namespace()) {
    static_cast<void>(n);
    fail("argument of type 'Namespace' is not iterable");
  }
  for (Cursor items(*this, container); const auto item_value = items.next();)
    if (equal(*this, *item_value, v)) return true;
  return false;
}

Value Runtime::attribute_path(const Value& object, const Value& path, const Value* fallback) {
  if (path.as_text()) step(path.as_text()->text.size());
  const auto defaulted = [&](Value v) { return fallback && v.is_undefined() ? *fallback : v; };
  const Text* t = path.as_text();
  if (!t) return defaulted(item(object, path));
  Value v = object;
  size_t begin = 0;
  for (;;) {
    const size_t dot = t->text.find('.', begin);
    const std::string part = t->text.substr(begin, dot == std::string::npos ? dot : dot - begin);
    const bool number = !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == std::string::npos;
    v = defaulted(item(v, number ? Value::integer(std::stoll(part)) : text(part)));
    if (dot == std::string::npos) return v;
    begin = dot + 1;
  }
}

}  // namespace kvcal::jinja
