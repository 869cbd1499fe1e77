// '%s' % x and '{}'.format(x), which share how numbers are printed.

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "jinja/python_text.h"
#include "jinja/runtime.h"
#include "unicode/utf8.h"

namespace kvcal::jinja {
namespace {

constexpr int64_t kWidest = 10'000;

// [[fill]align][sign][#][0][width][,][.precision][type], as both ways of formatting end up with.
struct Spec {
  std::string fill = " ";
  char align = 0;  // < > ^ =
  char sign = '-';
  bool alternate = false, grouped = false;
  int64_t width = 0, precision = -1;
  char type = 0;
};

void append_padded(PaidText& out, const Spec& s, std::string_view text, char default_align) {
  const auto n = static_cast<int64_t>(python::length(out.budget(), text));
  if (n >= s.width) {
    out += text;
    return;
  }
  const int64_t missing = s.width - n;
  const char align = s.align ? s.align : default_align;
  const int64_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  const auto pad = [&](int64_t k) { out.repeat(s.fill, static_cast<size_t>(k)); };
  if (align == '=') {
    const size_t sign = !text.empty() && (text[0] == '-' || text[0] == '+' || text[0] == ' ') ? 1 : 0;
    out += text.substr(0, sign);
    pad(missing);
    out += text.substr(sign);
    return;
  }
  pad(left);
  out += text;
  pad(missing - left);
}

std::string with_sign(const Spec& s, bool negative, std::string digits) {
  if (negative) return "-" + digits;
  return s.sign == '+' || s.sign == ' ' ? s.sign + digits : digits;
}

void group_thousands(std::string& digits) {
  const size_t whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
  std::string grouped;
  for (size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % 3 == 0) grouped += ',';
    grouped += digits[i];
  }
  digits.replace(0, whole, grouped);
}

std::string digits_in_base(const Value& v, int base) {
  int64_t value = 0;
  if (!v.to_int(value)) fail("printing integer " + integer_text(v) + " in base " + std::to_string(base));
  const uint64_t magnitude = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  char buffer[80];
  return std::string(buffer, std::to_chars(buffer, buffer + sizeof buffer, magnitude, base).ptr);
}

// Of an integer or boolean.
void append_integer(PaidText& out, const Spec& s, const Value& v) {
  out.budget().step();
  const int base = s.type == 'x' || s.type == 'X' ? 16 : s.type == 'o' ? 8 : s.type == 'b' ? 2 : 10;
  std::string digits = integer_text(v);
  const bool negative = digits.starts_with('-');
  if (negative) digits.erase(0, 1);
  if (base != 10) digits = digits_in_base(v, base);
  if (s.type == 'X')
    std::transform(digits.begin(), digits.end(), digits.begin(),
                   [](char c) { return static_cast<char>(std::toupper(c)); });
  if (static_cast<int64_t>(digits.size()) < s.precision)
    digits.insert(0, static_cast<size_t>(s.precision) - digits.size(), '0');
  if (s.alternate && base != 10) digits = std::string("0") + s.type + digits;
  if (s.grouped) group_thousands(digits);
  append_padded(out, s, with_sign(s, negative, digits), '>');
}

void append_real(PaidText& out, const Spec& s, double value) {
  out.budget().step(4 * kRealSteps);
  const char type = s.type ? s.type : 'g';
  const std::string pattern = std::string("%.*") + (type == '%' ? 'f' : type);
  const double magnitude = std::abs(type == '%' ? value * 100 : value);
  char buffer[512];
  const int precision = static_cast<int>(s.precision < 0 ? 6 : std::min<int64_t>(s.precision, 100));
  std::snprintf(buffer, sizeof buffer, pattern.c_str(), precision, magnitude);
  std::string digits = buffer;
  if (!s.type && s.precision < 0) digits = repr_of_real(magnitude);
  if (s.grouped) group_thousands(digits);
  if (type == '%') digits += '%';
  append_padded(out, s, with_sign(s, std::signbit(value) && !std::isnan(value), digits), '>');
}

void append_text(PaidText& out, const Spec& s, std::string_view text, char default_align) {
  if (s.precision >= 0) {
    size_t end = 0;
    for (int64_t i = 0; i < s.precision && end < text.size(); ++i) end += utf8_length(text[end]);
    text = text.substr(0, end);
  }
  append_padded(out, s, text, default_align);
}

int64_t read_count(std::string_view text, size_t& i) {
  int64_t n = 0;
  while (i < text.size() && text[i] >= '0' && text[i] <= '9')
    n = std::min<int64_t>(n * 10 + (text[i++] - '0'), kWidest + 1);
  if (n > kWidest) fail("format width or precision above " + std::to_string(kWidest));
  return n;
}

// The flags, width, precision and conversion behind a '%'.
Spec read_percent(std::string_view f, size_t& i) {
  Spec s;
  for (; i < f.size() && std::string_view("-+ 0#").find(f[i]) != std::string_view::npos; ++i) {
    if (f[i] == '-') s.align = '<';
    if (f[i] == '+' || f[i] == ' ') s.sign = s.sign == '+' ? '+' : f[i];
    if (f[i] == '#') s.alternate = true;
    if (f[i] == '0' && !s.align) s.align = '=', s.fill = "0";
  }
  if (s.align == '<') s.fill = " ";
  s.width = read_count(f, i);
  if (i < f.size() && f[i] == '.') s.precision = read_count(f, ++i);
  if (i >= f.size()) fail("incomplete format");
  s.type = f[i++];
  return s;
}

void append_percent(PaidText& out, Spec s, const Value& v) {
  double d = 0;
  const bool whole = v.is_integer() || v.as_bool();
  switch (s.type) {
    case 's':
      return append_text(out, s, AsText(out.budget(), v).view(), '>');
    case 'r': {
      PaidText repr(out.budget());
      append_repr(repr, v);
      return append_text(out, s, repr.view(), '>');
    }
    case 'd':
    case 'i':
    case 'u':
      s.type = 'd';
      if (whole) return append_integer(out, s, v);
      if (!v.as_real()) fail("%d format: a number is required, not " + type_name(v));
      if (!std::isfinite(*v.as_real())) fail("cannot convert float " + repr_of_real(*v.as_real()) + " to integer");
      return append_integer(out, s, Value::integer_of_digits(&out.budget(), digits_of_whole(std::trunc(*v.as_real()))));
    case 'x':
    case 'X':
    case 'o':
      if (!whole) fail(std::string("%") + s.type + " format: an integer is required, not " + type_name(v));
      return append_integer(out, s, v);
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
      if (!v.to_real(d)) fail("must be real number, not " + type_name(v));
      return append_real(out, s, d);
    default:
      fail(std::string("format character '") + s.type + "' is not supported");
  }
}

Spec read_spec(std::string_view f) {
  Spec s;
  size_t i = 0;
  const size_t fill = f.empty() ? 0 : static_cast<size_t>(std::max<long>(1, [&] {
    long n = 1;
    while (static_cast<size_t>(n) < f.size() && (static_cast<unsigned char>(f[static_cast<size_t>(n)]) & 0xC0) == 0x80)
      ++n;
    return n;
  }()));
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  if (fill > 0 && fill < f.size() && is_align(f[fill])) {
    s.fill = std::string(f.substr(0, fill));
    s.align = f[fill];
    i = fill + 1;
  } else if (!f.empty() && is_align(f[0])) {
    s.align = f[i++];
  }
  if (i < f.size() && (f[i] == '+' || f[i] == '-' || f[i] == ' ')) s.sign = f[i++];
  if (i < f.size() && f[i] == '#') s.alternate = true, ++i;
  if (i < f.size() && f[i] == '0') {
    if (!s.align) s.align = '=', s.fill = "0";
    ++i;
  }
  s.width = read_count(f, i);
  if (i < f.size() && f[i] == ',') s.grouped = true, ++i;
  if (i < f.size() && f[i] == '.') s.precision = read_count(f, ++i);
  if (i < f.size()) s.type = f[i++];
  if (i < f.size()) fail("format specifier " + quoted(f) + " is not supported");
  return s;
}

void append_braces(PaidText& out, const Value& v, std::string_view spec) {
  if (spec.empty()) return append_str(out, v);
  const Spec s = read_spec(spec);
  double d = 0;
  if (const Text* t = v.as_text()) {
    if (s.type && s.type != 's') fail("unknown format code '" + std::string(1, s.type) + "' for a str");
    return append_text(out, s, t->text, '<');
  }
  if ((v.is_integer() || v.as_bool()) && (!s.type || std::string_view("dxXob").find(s.type) != std::string_view::npos))
    return append_integer(out, s, v);
  if (v.to_real(d) && (!s.type || std::string_view("eEfFgG%").find(s.type) != std::string_view::npos))
    return append_real(out, s, d);
  fail("format specifier " + quoted(spec) + " does not fit a " + type_name(v));
}

}  // namespace

Value format_percent(Runtime& rt, std::string_view f, const Value& values) {
  const Sequence* tuple = values.as_sequence();
  if (tuple && tuple->kind != SequenceKind::Tuple) tuple = nullptr;
  PaidText out(rt);
  size_t used = 0;
  for (size_t i = 0; i < f.size();) {
    if (f[i] != '%') {
      out += f[i++];
      continue;
    }
    if (++i < f.size() && f[i] == '%') {
      out += f[i++];
      continue;
    }
    const Value* v = nullptr;
    if (i < f.size() && f[i] == '(') {
      const size_t end = f.find(')', i);
      if (end == std::string_view::npos || !values.as_dict()) fail("format requires a mapping");
      const std::string key(f.substr(i + 1, end - i - 1));
      v = values.as_dict()->find(key);
      if (!v) fail("format: no key " + quoted(key));
      i = end + 1;
    }
    const Spec s = read_percent(f, i);
    if (!v) {
      if (tuple ? used >= tuple->items.size() : used >= 1) fail("not enough arguments for format string");
      v = tuple ? &tuple->items[used] : &values;
      ++used;
    }
    append_percent(out, s, *v);
  }
  if (tuple ? used < tuple->items.size()
            : used == 0 && !values.as_dict() && !values.as_sequence() && !values.is_undefined())
    fail("not all arguments converted during string formatting");
  return Value::text(std::move(out));
}

Value format_braces(Runtime& rt, std::string_view f, const Arguments& a) {
  PaidText out(rt);
  size_t next = 0;
  for (size_t i = 0; i < f.size();) {
    if ((f[i] == '{' || f[i] == '}') && i + 1 < f.size() && f[i + 1] == f[i]) {
      out += f[i];
      i += 2;
      continue;
    }
    if (f[i] == '}') fail("single '}' encountered in format string");
    if (f[i] != '{') {
      out += f[i++];
      continue;
    }
    const size_t end = f.find('}', i);
    if (end == std::string_view::npos) fail("single '{' encountered in format string");
    const std::string_view field = f.substr(i + 1, end - i - 1);
    const size_t colon = std::min(field.find(':'), field.size());
    std::string_view name = field.substr(0, colon);
    if (field.find_first_of("{!") != std::string_view::npos)
      fail("format field " + quoted(field) + " is not supported");
    const size_t path = std::min(name.find_first_of(".["), name.size());
    if (path < name.size()) fail("format field " + quoted(field) + " with attributes or items is not supported");
    const bool number = name.find_first_not_of("0123456789") == std::string_view::npos && name.size() < 6;
    const Value* v = nullptr;
    if (number) {
      const size_t index = name.empty() ? next++ : static_cast<size_t>(std::stoi(std::string(name)));
      if (index < a.positional.size()) v = &a.positional[index];
    } else {
      rt.steps(a.named.size(), 4);
      for (const auto& [key, value] : a.named)
        if (key == name) v = &value;
    }
    if (!v) fail("format: no argument for field " + quoted(field));
    append_braces(out, *v, colon < field.size() ? field.substr(colon + 1) : "");
    i = end + 1;
  }
  return Value::text(std::move(out));
}

}  // namespace kvcal::jinja
