// What running a template shares: limits, the clock, arguments of calls, and the tables of filters, tests and methods.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/value.h"

namespace kvcal::jinja {

/// Arguments of a call as evaluated.
struct Arguments {
  explicit Arguments(Budget& payer) : held(&payer, 0) {}

  void add(Value v) {
    held.grow(2 * sizeof(Value));
    positional.push_back(std::move(v));
  }
  void add(std::string name, Value v) {
    held.grow(2 * sizeof(named[0]) + name.size());
    named.emplace_back(std::move(name), std::move(v));
  }
  /// Deepest nesting of what is given.
  int depth() const;

  Held held;
  Values positional;
  std::vector<std::pair<std::string, Value>> named;
};

/// Arguments sorted to the parameters of a function, Python's way.
class Bound {
 public:
  /// Throws Error for too many arguments, unknown names and doubles; `what` names the function.
  Bound(const std::string& what, Arguments& arguments, std::initializer_list<const char*> parameters);
  /// Deepest nesting of what is given.
  int depth() const;

  bool has(size_t i) const { return given_[i]; }
  /// The argument; throws Error when it is missing.
  const Value& at(size_t i) const;
  const Value& get_or(size_t i, const Value& fallback) const { return given_[i] ? values_[i] : fallback; }
  bool is_none_or_missing(size_t i) const { return !given_[i] || values_[i].is_none(); }
  /// Typed, with an error that names the parameter.
  const std::string& text(size_t i) const;
  std::string_view text_or(size_t i, std::string_view fallback) const { return given_[i] ? text(i) : fallback; }
  int64_t integer(size_t i) const;
  int64_t integer_or(size_t i, int64_t fallback) const { return given_[i] ? integer(i) : fallback; }
  bool flag_or(size_t i, bool fallback) const { return given_[i] ? values_[i].truthy() : fallback; }

 private:
  std::string what_;
  std::vector<std::string> names_;
  Values values_;
  std::vector<bool> given_;
};

class Runtime : public Budget {
 public:
  Runtime(const Limits& limits, int64_t unix_seconds) : Budget(limits), unix_seconds_(unix_seconds) {}
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  Value text(std::string_view s) { return Value::text(this, s); }
  Value undefined(std::string reason) { return Value::undefined(this, std::move(reason)); }
  Value make_namespace();
  int64_t unix_seconds() const { return unix_seconds_; }

  Value call_filter(const std::string& name, const Value& input, Arguments& arguments);
  bool call_test(const std::string& name, const Value& input, Arguments& arguments);
  Value call(const Value& function, Arguments& arguments);

  /// x.name: the attribute or method first, then the item.
  Value attribute(const Value& object, const std::string& name);
  /// x[key]: the item first, then the attribute.
  Value item(const Value& object, const Value& key);
  Value slice(const Value& object, const Value& start, const Value& stop, const Value& step);
  Value binary(const std::string& op, const Value& a, const Value& b);
  Value negative(const Value& v);
  bool compare(const std::string& op, const Value& a, const Value& b);
  bool contains(const Value& container, const Value& item);

  /// "a.b.0" of |map(attribute=...) and its like.
  /// With `fallback`, each part that is undefined becomes that.
  Value attribute_path(const Value& object, const Value& path, const Value* fallback = nullptr);

  int line = 0;  // of what runs now, for messages

 private:
  int64_t unix_seconds_;
  std::vector<std::shared_ptr<Namespace>> namespaces_;  // they can hold themselves, so they are emptied in the end
};

/// Throws the error of using an undefined value.
[[noreturn]] void fail_undefined(const Value& v);
/// len(); throws Error for values without one.
int64_t length_of(Budget& budget, const Value& v);
/// Appends with & < > ' " as HTML entities.
void append_html_escaped(PaidText& out, std::string_view text);

using FilterFunction = Value (*)(Runtime&, const Value&, Arguments&);
using TestFunction = bool (*)(Runtime&, const Value&, Arguments&);
FilterFunction find_text_filter(std::string_view name);
FilterFunction find_sequence_filter(std::string_view name);
FilterFunction find_number_filter(std::string_view name);
TestFunction find_test(std::string_view name);
FilterFunction find_filter(std::string_view name);
[[noreturn]] void fail_unknown_filter(const std::string& name);
[[noreturn]] void fail_unknown_test(const std::string& name);
std::vector<std::string> text_filter_names();
std::vector<std::string> sequence_filter_names();
std::vector<std::string> number_filter_names();
std::vector<std::string> test_names();

/// A method of a str, dict, list, int or float bound to its object; undefined when there is none of this name, and an
/// error when Python has one that is not supported here.
Value find_method(Budget& budget, const Value& object, const std::string& name);

/// range, namespace, dict, joiner, raise_exception, strftime_now; undefined for other names.
Value find_global(Budget& budget, const std::string& name);

/// '%s of %d' % values, and str.format.
Value format_percent(Runtime& rt, std::string_view format, const Value& values);
Value format_braces(Runtime& rt, std::string_view format, const Arguments& arguments);

/// Appends the time as strftime prints it in UTC with C-locale names.
void append_time(PaidText& out, std::string_view format, int64_t unix_seconds);

}  // namespace kvcal::jinja
