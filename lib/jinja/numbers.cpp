// Integers of any size as digits, and numbers compared by their exact values.

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "jinja/value.h"

namespace kvcal::jinja {
namespace {

LargeInteger whole_of(std::string_view text) {
  LargeInteger w;
  w.negative = text.starts_with('-');
  if (w.negative || text.starts_with('+')) text.remove_prefix(1);
  w.digits = text.substr(std::min(text.find_first_not_of('0'), text.size()));
  if (w.digits.empty()) w = {{}, false, "0"};
  return w;
}

// Of an integer or boolean.
LargeInteger whole_of(const Value& v) {
  if (const LargeInteger* large = v.as_large()) return *large;
  int64_t i = 0;
  v.to_int(i);
  return whole_of(std::to_string(i));
}

std::strong_ordering operator<=>(const LargeInteger& a, const LargeInteger& b) {
  if (a.negative != b.negative) return b.negative <=> a.negative;
  const auto magnitude =
      a.digits.size() != b.digits.size() ? a.digits.size() <=> b.digits.size() : a.digits.compare(b.digits) <=> 0;
  return a.negative ? 0 <=> magnitude : magnitude;
}

std::partial_ordering compare_with_real(const Value& integer, double d) {
  if (std::isnan(d)) return std::partial_ordering::unordered;
  if (std::isinf(d)) return 0.0 <=> d;
  const double whole = std::trunc(d);
  const auto order = whole_of(integer) <=> whole_of(digits_of_whole(whole));
  return order != 0 ? std::partial_ordering(order) : 0.0 <=> d - whole;
}

}  // namespace

Value Value::integer_of_digits(Budget* payer, std::string_view text) {
  if (payer) payer->step(text.size());
  LargeInteger w = whole_of(text);
  const std::string signed_digits = (w.negative ? "-" : "") + w.digits;
  int64_t i = 0;
  const auto end = signed_digits.data() + signed_digits.size();
  if (std::from_chars(signed_digits.data(), end, i).ec == std::errc()) return integer(i);
  w.held = Held(payer, sizeof(LargeInteger) + w.digits.size());
  return Value(std::make_shared<const LargeInteger>(std::move(w)));
}

std::string digits_of_whole(double d) {
  char buffer[400];  // the largest double has 309 digits
  return std::string(buffer, std::to_chars(buffer, buffer + sizeof buffer, d, std::chars_format::fixed, 0).ptr);
}

std::string integer_text(const Value& v) {
  const LargeInteger w = whole_of(v);
  return (w.negative ? "-" : "") + w.digits;
}

bool parse_real(const std::string& text, double& out) {
  const char* const end = text.data() + text.size();
  const auto r = std::from_chars(text.data(), end, out);
  if (r.ec == std::errc::invalid_argument || r.ptr != end) return false;
  if (r.ec == std::errc::result_out_of_range) out = std::strtod(text.c_str(), nullptr);  // zero or infinity
  return true;
}

double real_of(const LargeInteger& large) {
  const std::string text = (large.negative ? "-" : "") + large.digits;
  double d = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), d).ec != std::errc())
    fail("int too large to convert to float");
  return d;
}

std::partial_ordering compare_numbers(const Value& a, const Value& b) {
  int64_t i = 0, j = 0;
  if (a.to_int(i) && b.to_int(j)) return i <=> j;
  const double *x = a.as_real(), *y = b.as_real();
  if (x && y) return *x <=> *y;
  if (x) return 0 <=> compare_with_real(b, *x);
  if (y) return compare_with_real(a, *y);
  return whole_of(a) <=> whole_of(b);
}

}  // namespace kvcal::jinja
