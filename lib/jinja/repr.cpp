// Values as text: Python's str and repr, and json.dumps.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "jinja/python_text.h"
#include "jinja/runtime.h"
#include "jinja/value.h"
#include "unicode/utf8.h"

namespace kvcal::jinja {
namespace {

constexpr int kDeepestNamespace = 20;  // a namespace may contain itself

std::string joined(const Values& items, int level);

std::string repr_at(const Value& v, int level) {
  if (v.is_undefined()) return "Undefined";
  if (v.is_none()) return "None";
  if (const bool* b = v.as_bool()) return *b ? "True" : "False";
  if (v.is_integer()) return integer_text(v);
  if (const double* d = v.as_real()) return repr_of_real(*d);
  if (const Text* t = v.as_text()) {
    const std::string r = repr_of_text(t->text);
    return t->markup ? "Markup(" + r + ")" : r;
  }
  if (const Sequence* s = v.as_sequence()) {
    const std::string inside = s->kind == SequenceKind::Generator ? "" : joined(s->items, level);
    if (s->kind == SequenceKind::List) return "[" + inside + "]";
    if (s->kind == SequenceKind::Tuple) return "(" + inside + (s->items.size() == 1 ? ",)" : ")");
    if (s->kind == SequenceKind::View) return s->view_name + "([" + inside + "])";
    if (s->kind == SequenceKind::Range) return s->view_name;
    fail("printing a generator, whose text is an address in the reference; use |list");
  }
  if (const Dict* d = v.as_dict()) {
    std::string out = "{";
    for (const auto& [key, value] : d->items)
      out += (out.size() > 1 ? ", " : "") + repr_at(key, level) + ": " + repr_at(value, level);
    return out + "}";
  }
  if (const Namespace* n = v.as_namespace()) {
    if (level >= kDeepestNamespace) fail("namespaces are nested deeper than " + std::to_string(kDeepestNamespace));
    std::string out = "<Namespace {";
    for (size_t i = 0; i < n->attributes.size(); ++i)
      out +=
          (i ? ", " : "") + repr_of_text(n->attributes[i].first) + ": " + repr_at(n->attributes[i].second, level + 1);
    return out + "}>";
  }
  if (const Callable* c = v.as_callable(); c && !c->printed.empty()) return c->printed;
  fail("printing a " + type_name(v) + ", whose text is an address in the reference");
}

std::string joined(const Values& items, int level) {
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) out += (i ? ", " : "") + repr_at(items[i], level);
  return out;
}

void append_unicode_escape(std::string& out, char32_t c) {
  char buffer[16];
  if (c >= 0x10000) {
    c -= 0x10000;
    std::snprintf(buffer, sizeof buffer, "\\u%04x\\u%04x", 0xD800 + (c >> 10), 0xDC00 + (c & 0x3FF));
  } else {
    std::snprintf(buffer, sizeof buffer, "\\u%04x", c);
  }
  out += buffer;
}

std::string json_text(std::string_view text, bool ensure_ascii) {
  std::string out = "\"";
  for (size_t i = 0; i < text.size();) {
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
          append_utf8(out, c);
    }
  }
  return out + "\"";
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
  explicit JsonWriter(const JsonStyle& style) : style_(style) {}

  void write(const Value& v, int level) {
    const Sequence* s = v.as_sequence();
    if (v.is_none()) {
      out += "null";
    } else if (const bool* b = v.as_bool()) {
      out += *b ? "true" : "false";
    } else if (v.is_integer()) {
      out += integer_text(v);
    } else if (const double* d = v.as_real()) {
      out += json_number(*d);
    } else if (const Text* t = v.as_text()) {
      out += json_text(t->text, style_.ensure_ascii);
    } else if (s && (s->kind == SequenceKind::List || s->kind == SequenceKind::Tuple)) {
      write_items('[', ']', s->items.size(), level, [&](size_t k) { write(s->items[k], level + 1); });
    } else if (const Dict* dict = v.as_dict()) {
      write_dict(*dict, level);
    } else {
      fail("tojson: Object of type " + type_name(v) + " is not JSON serializable" +
           (v.is_undefined() ? ": " + v.as_missing()->reason : ""));
    }
  }

  std::string out;

 private:
  template <class Item>
  void write_items(char open, char close, size_t n, int level, Item&& item) {
    out += open;
    for (size_t i = 0; i < n; ++i) {
      if (i) out += style_.item_separator;
      new_line(level + 1);
      item(i);
    }
    if (n) new_line(level);
    out += close;
  }

  void write_dict(const Dict& d, int level) {
    std::vector<std::pair<std::string, const Value*>> members;
    for (const auto& [key, value] : d.items) members.emplace_back(json_key(key), &value);
    if (style_.sort_keys)
      std::stable_sort(members.begin(), members.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    write_items('{', '}', members.size(), level, [&](size_t i) {
      out += json_text(members[i].first, style_.ensure_ascii);
      out += style_.key_separator;
      write(*members[i].second, level + 1);
    });
  }

  void new_line(int level) {
    if (!style_.indented) return;
    out += '\n';
    for (int i = 0; i < level; ++i) out += style_.indent;
  }

  const JsonStyle& style_;
};

}  // namespace

std::string to_repr(const Value& v) { return repr_at(v, 0); }

std::string to_str(const Value& v) {
  if (v.is_undefined()) return "";
  if (const Text* t = v.as_text()) return t->text;
  return repr_at(v, 0);
}

std::string to_json(const Value& v, const JsonStyle& style) {
  JsonWriter writer(style);
  writer.write(v, 0);
  return std::move(writer.out);
}

// Python prefers single quotes, and escapes what is not printable.
std::string repr_of_text(std::string_view text) {
  const bool single = text.find('\'') == std::string_view::npos || text.find('"') != std::string_view::npos;
  const char quote = single ? '\'' : '"';
  std::string out(1, quote);
  char buffer[16];
  for (size_t i = 0; i < text.size();) {
    const char32_t c = next_code_point(text, i);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if (python::is_printable(c)) {
      append_utf8(out, c);
    } else {
      std::snprintf(buffer, sizeof buffer, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
      out += buffer;
    }
  }
  return out + quote;
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
