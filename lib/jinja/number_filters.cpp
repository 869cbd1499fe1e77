// Filters that make numbers: int, float, round, abs, sum.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include "jinja/python_text.h"
#include "jinja/runtime.h"
#include "unicode/utf8.h"

namespace kvcal::jinja {
namespace {

constexpr size_t kMostTextDigits = 4300;  // int(text) of Python takes no more

constexpr size_t kDigitSteps = 500;  // finding the value of a digit of another script

constexpr std::string_view kAsciiSpace = " \t\n\v\f\r";

// int(text) and float(text) of Python: white space around, an optional sign, underscores between digits, and the
// decimal digits of every script. Of ASCII texts U+001C to U+001F are no white space, unlike for strip().
std::string number_text(Budget& budget, const std::string& text) {
  const Held held(&budget, 2 * text.size());
  budget.steps(text.size(), kDigitSteps);
  std::string s;
  for (size_t i = 0; i < text.size();) {
    const char32_t c = next_code_point(text, i);
    if (c < 0x7F)
      s += static_cast<char>(c);
    else
      s += python::is_space(c) ? ' ' : python::is_decimal(c) ? static_cast<char>('0' + python::decimal_value(c)) : '?';
  }
  s.erase(0, std::min(s.find_first_not_of(kAsciiSpace), s.size()));
  s.resize(s.find_last_not_of(kAsciiSpace) + 1);
  if (s.starts_with('+') && !s.starts_with("+-")) s.erase(0, 1);
  const auto digit = [&](size_t k) { return k < s.size() && s[k] >= '0' && s[k] <= '9'; };
  std::string out;
  for (size_t k = 0; k < s.size(); ++k)
    if (k == 0 || s[k] != '_' || !digit(k - 1) || !digit(k + 1)) out += s[k];
  return out;
}

int base_of_prefix(std::string_view s) {
  if (s.size() < 2 || s[0] != '0') return 0;
  const char letter = static_cast<char>(s[1] | 0x20);
  return letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
}

// Base 0 goes by the prefix, and decimal numbers then have no leading zeros.
std::optional<Value> parse_integer(Budget& budget, std::string s, int64_t base) {
  const bool negative = s.starts_with('-');
  if (negative) s.erase(0, 1);
  const int prefix_base = base_of_prefix(s);
  if (base == 0 && !prefix_base && s.starts_with('0') && s.find_first_not_of('0') != s.npos) return std::nullopt;
  if (base == 0) base = prefix_base ? prefix_base : 10;
  if (base < 2 || base > 36) return std::nullopt;
  if (base == prefix_base) s.erase(0, s.size() > 2 && s[2] == '_' ? 3 : 2);
  if (s.starts_with('-')) return std::nullopt;
  if (negative) s.insert(0, "-");
  int64_t i = 0;
  const auto r = std::from_chars(s.data(), s.data() + s.size(), i, static_cast<int>(base));
  if (r.ec == std::errc::invalid_argument || r.ptr != s.data() + s.size()) return std::nullopt;
  if (r.ec == std::errc()) return Value::integer(i);
  if (base != 10) fail("integer " + quoted(s) + " in base " + std::to_string(base) + " does not fit 64 bits");
  if (s.size() > kMostTextDigits) return std::nullopt;
  return Value::integer_of_digits(&budget, s);
}

bool parse_python_real(std::string lower, double& out) {
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c | 0x20 : c; });
  const std::string_view bare = std::string_view(lower).substr(lower.starts_with('-') ? 1 : 0);
  if (bare == "infinity" || bare == "inf") return out = lower[0] == '-' ? -INFINITY : INFINITY, true;
  if (bare == "nan") return out = NAN, true;
  return parse_real(lower, out);
}

// A double without its fraction; nothing of one that is not finite.
std::optional<Value> truncated(Budget& budget, double d) {
  if (!std::isfinite(d)) return std::nullopt;
  return Value::integer_of_digits(&budget, digits_of_whole(std::trunc(d)));
}

Value to_int(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("int", a, {"default", "base"});
  int64_t i = 0;
  double d = 0;
  if (v.as_large()) return v;
  if (v.to_int(i)) return Value::integer(i);
  if (v.is_undefined()) fail_undefined(v);
  if (v.as_real())
    if (const auto whole = truncated(rt, *v.as_real())) return *whole;
  if (const Text* t = v.as_text()) {
    const std::string s = number_text(rt, t->text);
    if (const auto whole = parse_integer(rt, s, b.integer_or(1, 10))) return *whole;
    if (parse_python_real(s, d))
      if (const auto whole = truncated(rt, d)) return *whole;
  }
  return b.get_or(0, Value::integer(0));
}

Value to_float(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("float", a, {"default"});
  double d = 0;
  if (v.to_real(d)) return Value::real(d);
  if (v.is_undefined()) fail_undefined(v);
  if (v.as_text() && parse_python_real(number_text(rt, v.as_text()->text), d)) return Value::real(d);
  return b.get_or(0, Value::real(0.0));
}

// round() to `digits` decimals through the shortest exact decimal expansion, halves to even, as Python rounds.
double round_decimal(double d, int64_t digits) {
  if (std::isnan(d) || std::isinf(d)) return d;
  if (digits >= 0 && digits <= 300) {
    char buffer[700];
    const auto end =
        std::to_chars(buffer, buffer + sizeof buffer, d, std::chars_format::fixed, static_cast<int>(digits));
    double out = d;
    if (end.ec == std::errc()) std::from_chars(buffer, end.ptr, out);
    return out;
  }
  if (digits > 300) return d;
  const double scale = std::pow(10.0, static_cast<double>(-digits));
  return std::nearbyint(d / scale) * scale;
}

Value round_number(Runtime&, const Value& v, Arguments& a) {
  Bound b("round", a, {"precision", "method"});
  const int64_t digits = b.integer_or(0, 0);
  const std::string_view method = b.text_or(1, "common");
  double d = 0;
  if (v.is_undefined()) fail_undefined(v);
  if (!v.to_real(d)) fail("needs a number, not " + type_name(v));
  if (method == "common") {
    int64_t i = 0;
    if (v.as_large() && digits >= 0) return v;
    if (v.as_large()) fail("rounding integer " + integer_text(v) + ", which has more than 64 bits");
    if (v.to_int(i) && digits >= 0) return Value::integer(i);
    if (v.to_int(i)) return Value::integer(static_cast<int64_t>(round_decimal(d, digits)));
    return Value::real(round_decimal(d, digits));
  }
  if (method != "ceil" && method != "floor") fail("method must be common, ceil or floor");
  const double scale = std::pow(10.0, static_cast<double>(digits));
  const double whole = method == "ceil" ? std::ceil(d * scale) : std::floor(d * scale);
  if (!std::isfinite(whole)) fail("cannot convert float " + repr_of_real(whole) + " to integer");
  return Value::real((whole + 0.0) / scale);  // an integer in the reference, which has no minus zero
}

Value absolute(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("abs", a, {});
  if (v.is_undefined()) fail_undefined(v);
  if (!v.is_number()) fail("bad operand type for abs(): '" + type_name(v) + "'");
  if (const double* d = v.as_real()) return Value::real(std::fabs(*d));
  return less(rt, v, Value::integer(0)) ? rt.negative(v) : rt.negative(rt.negative(v));
}

Value sum(Runtime& rt, const Value& v, Arguments& a) {
  Bound b("sum", a, {"attribute", "start"});
  Value total = b.get_or(1, Value::integer(0));
  for (Cursor items(rt, v); const auto item = items.next();)
    total = rt.binary("+", total, b.is_none_or_missing(0) ? *item : rt.attribute_path(*item, b.at(0)));
  return total;
}

const std::map<std::string, FilterFunction, std::less<>> kNumberFilters{
    {"int", to_int}, {"float", to_float}, {"round", round_number}, {"abs", absolute}, {"sum", sum},
};

}  // namespace

FilterFunction find_number_filter(std::string_view name) {
  const auto it = kNumberFilters.find(name);
  return it == kNumberFilters.end() ? nullptr : it->second;
}

std::vector<std::string> number_filter_names() {
  std::vector<std::string> names;
  for (const auto& [name, filter] : kNumberFilters) names.push_back(name);
  return names;
}

}  // namespace kvcal::jinja
