// Values as text: Python's str and repr, and json.dumps.

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>

#include "jinja/python_text.h"
#include "jinja/runtime.h"
#include "jinja/value.h"
#include "unicode/utf8.h"

namespace kvcal::jinja {
namespace {

constexpr int kDeepestNamespace = 20;  // a namespace may contain itself

void append_repr_at(PaidText& out, const Value& v, int level);

void append_items(PaidText& out, const Values& items, int level) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i) out += ", ";
    append_repr_at(out, items[i], level);
  }
}

void append_sequence(PaidText& out, const Sequence& s, int level) {
  if (s.kind == SequenceKind::Generator)
    fail("printing a generator, whose text is an address in the reference; use |list");
  if (s.kind == SequenceKind::Range) {
    out += s.view_name;
    return;
  }
  const bool tuple = s.kind == SequenceKind::Tuple, view = s.kind == SequenceKind::View;
  if (view) out += s.view_name;
  out += tuple ? "(" : view ? "([" : "[";
  append_items(out, s.items, level);
  out += tuple ? (s.items.size() == 1 ? ",)" : ")") : view ? "])" : "]";
}

void append_dict(PaidText& out, const Dict& d, int level) {
  out += '{';
  bool first = true;
  for (const auto& [key, value] : d.items) {
    if (!std::exchange(first, false)) out += ", ";
    append_repr_at(out, key, level);
    out += ": ";
    append_repr_at(out, value, level);
  }
  out += '}';
}

void append_namespace(PaidText& out, const Namespace& n, int level) {
  if (level >= kDeepestNamespace) fail("namespaces are nested deeper than " + std::to_string(kDeepestNamespace));
  out += "<Namespace {";
  bool first = true;
  for (const auto& [name, value] : n.attributes) {
    if (!std::exchange(first, false)) out += ", ";
    append_repr_of_text(out, name);
    out += ": ";
    append_repr_at(out, value, level + 1);
  }
  out += "}>";
}

void append_repr_at(PaidText& out, const Value& v, int level) {
  out.budget().step(kValueSteps);
  if (v.is_undefined()) {
    out += "Undefined";
  } else if (v.is_none()) {
    out += "None";
  } else if (const bool* b = v.as_bool()) {
    out += *b ? "True" : "False";
  } else if (v.is_integer()) {
    out += integer_text(v);
  } else if (const double* d = v.as_real()) {
    out.budget().step(kRealSteps);
    out += repr_of_real(*d);
  } else if (const Text* t = v.as_text()) {
    if (t->markup) out += "Markup(";
    append_repr_of_text(out, t->text);
    if (t->markup) out += ')';
  } else if (const Sequence* s = v.as_sequence()) {
    append_sequence(out, *s, level);
  } else if (const Dict* dict = v.as_dict()) {
    append_dict(out, *dict, level);
  } else if (const Namespace* n = v.as_namespace()) {
    append_namespace(out, *n, level);
  } else if (const Callable* c = v.as_callable(); c && !c->printed.empty()) {
    out += c->printed;
  } else {
    fail("printing a " + type_name(v) + ", whose text is an address in the reference");
  }
}

void append_unicode_escape(PaidText& out, char32_t c) {
  out.budget().step(8 * kCharacterSteps);
  char buffer[16];
  if (c >= 0x10000) {
    c -= 0x10000;
    std::snprintf(buffer, sizeof buffer, "\\u%04x\\u%04x", 0xD800 + (c >> 10), 0xDC00 + (c & 0x3FF));
  } else {
    std::snprintf(buffer, sizeof buffer, "\\u%04x", c);
  }
  out += buffer;
}

void append_json_text(PaidText& out, std::string_view text, bool ensure_ascii) {
  out.budget().steps(text.size(), 8);
  out += '"';
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i;
    const char32_t c = next_code_point(text, i);
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      default:
        if (c < 0x20 || (ensure_ascii && c > 0x7E))
          append_unicode_escape(out, c);
        else
          out += text.substr(begin, i - begin);
    }
  }
  out += '"';
}

std::string json_number(double d) {
  if (std::isnan(d)) return "NaN";
  if (std::isinf(d)) return d > 0 ? "Infinity" : "-Infinity";
  return repr_of_real(d);
}

std::string json_key(const Value& key) {
  if (const Text* t = key.as_text()) return t->text;
  if (const bool* b = key.as_bool()) return *b ? "true" : "false";
  if (key.is_integer()) return integer_text(key);
  if (const double* d = key.as_real()) return json_number(*d);
  if (key.is_none()) return "null";
  fail("tojson: keys must be str, int, float, bool or None, not " + type_name(key));
}

class JsonWriter {
 public:
  JsonWriter(PaidText& out, const JsonStyle& style) : out_(out), style_(style) {}

  void write(const Value& v, int level) {
    out_.budget().step(kValueSteps);
    const Sequence* s = v.as_sequence();
    if (v.is_none()) {
      out_ += "null";
    } else if (const bool* b = v.as_bool()) {
      out_ += *b ? "true" : "false";
    } else if (v.is_integer()) {
      out_ += integer_text(v);
    } else if (const double* d = v.as_real()) {
      out_.budget().step(kRealSteps);
      out_ += json_number(*d);
    } else if (const Text* t = v.as_text()) {
      append_json_text(out_, t->text, style_.ensure_ascii);
    } else if (s && (s->kind == SequenceKind::List || s->kind == SequenceKind::Tuple)) {
      write_items('[', ']', s->items.size(), level, [&](size_t k) { write(s->items[k], level + 1); });
    } else if (const Dict* dict = v.as_dict()) {
      write_dict(*dict, level);
    } else {
      fail("tojson: Object of type " + type_name(v) + " is not JSON serializable" +
           (v.is_undefined() ? ": " + v.as_missing()->reason : ""));
    }
  }

 private:
  template <class Item>
  void write_items(char open, char close, size_t n, int level, Item&& item) {
    out_ += open;
    for (size_t i = 0; i < n; ++i) {
      if (i) out_ += style_.item_separator;
      new_line(level + 1);
      item(i);
    }
    if (n) new_line(level);
    out_ += close;
  }

  void write_dict(const Dict& d, int level) {
    const Held held = paid_members(d);
    std::vector<std::pair<std::string, const Value*>> members;
    members.reserve(d.items.size());
    for (const auto& [key, value] : d.items) members.emplace_back(json_key(key), &value);
    if (style_.sort_keys)
      std::stable_sort(members.begin(), members.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    write_items('{', '}', members.size(), level, [&](size_t i) {
      append_json_text(out_, members[i].first, style_.ensure_ascii);
      out_ += style_.key_separator;
      write(*members[i].second, level + 1);
    });
  }

  // The keys as texts, and comparing them where they are sorted.
  Held paid_members(const Dict& d) {
    size_t bytes = 0;
    for (const auto& [key, value] : d.items) bytes += 64 + (key.as_text() ? key.as_text()->text.size() : 400);
    if (style_.sort_keys) out_.budget().steps(bytes, static_cast<size_t>(std::bit_width(d.items.size())));
    return Held(&out_.budget(), bytes);
  }

  void new_line(int level) {
    if (!style_.indented) return;
    out_ += '\n';
    out_.repeat(style_.indent, static_cast<size_t>(level));
  }

  PaidText& out_;
  const JsonStyle& style_;
};

}  // namespace

void append_repr(PaidText& out, const Value& v) { append_repr_at(out, v, 0); }

void append_str(PaidText& out, const Value& v) {
  if (v.is_undefined()) return;
  if (const Text* t = v.as_text())
    out += t->text;
  else
    append_repr(out, v);
}

std::string brief_repr(Budget& budget, const Value& v) {
  constexpr size_t kLongest = 200;
  PaidText out(budget);
  append_repr(out, v);
  const std::string_view whole = out.view();
  if (whole.size() <= kLongest) return std::string(whole);
  return repair_utf8(whole.substr(0, kLongest)).text + "...";
}

void append_json(PaidText& out, const Value& v, const JsonStyle& style) { JsonWriter(out, style).write(v, 0); }

// Python prefers single quotes, and escapes what is not printable.
void append_repr_of_text(PaidText& out, std::string_view text) {
  out.budget().steps(text.size(), kCharacterSteps);
  const bool single = text.find('\'') == std::string_view::npos || text.find('"') != std::string_view::npos;
  const char quote = single ? '\'' : '"';
  out += quote;
  char buffer[16];
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i;
    const char32_t c = next_code_point(text, i);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if (python::is_printable(c)) {
      out += text.substr(begin, i - begin);
    } else {
      std::snprintf(buffer, sizeof buffer, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
      out += buffer;
    }
  }
  out += quote;
}

// The shortest digits that read back, laid out as Python does: an exponent below 1e-4 and from 1e16 on.
std::string repr_of_real(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d > 0 ? "inf" : "-inf";
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, d, std::chars_format::scientific).ptr;
  std::string s(buffer, end);
  const size_t e = s.find('e');
  const int exponent = std::stoi(s.substr(e + 1));
  if (exponent < -4 || exponent >= 16) return s;
  std::string digits;
  for (char c : s.substr(0, e))
    if (c >= '0' && c <= '9') digits += c;
  const std::string sign = s[0] == '-' ? "-" : "";
  if (exponent < 0) return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() < whole) digits.append(whole - digits.size(), '0');
  return sign + digits.substr(0, whole) + "." + (digits.size() > whole ? digits.substr(whole) : "0");
}

}  // namespace kvcal::jinja
