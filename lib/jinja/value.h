// Values of the template language: Python's, as far as chat templates can see them.
//
// Everything but a namespace is immutable, because the reference runs templates in a sandbox that forbids changing
// lists and dicts. Containers are shared, never copied. What holds memory is paid for by the budget of the rendering
// that makes it; a payer of nullptr stands for what a template or its caller gives, which their readers have bounded.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"
#include "jinja/budget.h"

namespace kvcal::jinja {

class Value;
class Runtime;
struct Arguments;
class LoopState;

using Values = std::vector<Value>;
class List;

struct Text {
  Held held;
  std::string text;     // valid UTF-8
  bool markup = false;  // came through |safe or |escape: adding plain text to it escapes that text
};

/// A value that is not there. Printing gives nothing, it is false and empty; any other use is an error with `reason`.
struct Missing {
  Held held;
  std::string reason;
};

/// An integer that does not fit 64 bits. It is printed and compared; sums and the like are refused.
struct LargeInteger {
  Held held;
  bool negative = false;
  std::string digits;  // decimal, without leading zeros
};

enum class SequenceKind { List, Tuple, Range, Generator, View };

struct Sequence {
  Held held;
  SequenceKind kind = SequenceKind::List;
  Values items;
  int depth = 1;          // of nesting; bounded, so that walking a value cannot exhaust the stack
  std::string view_name;  // View: "dict_items", ...
  bool is_group = false;  // Tuple: of |groupby, whose items are also called .grouper and .list
  mutable bool running = false;
  std::function<std::optional<Value>()> next;  // Generator: makes its next item, each once
};

/// Keys keep their order. 1, 1.0 and true are one key, as in Python.
struct Dict {
  explicit Dict(Budget* payer);

  Held held;
  std::vector<std::pair<Value, Value>> items;
  std::unordered_map<std::string, size_t> index;  // by key identity
  int depth = 1;

  const Value* find(Budget& budget, const Value& key) const;
  const Value* find(std::string_view key) const;
  void set(const Value& key, Value value);
};

struct Namespace {
  explicit Namespace(Budget& payer);

  Held held;
  std::vector<std::pair<std::string, Value>> attributes;
  Value* find(std::string_view name);
  void set(const std::string& name, Value value);
};

struct Callable;

class Value {
 public:
  Value() : data_(std::shared_ptr<const Missing>()) {}
  static Value undefined(Budget* payer, std::string reason);
  static Value none() { return Value(nullptr); }
  static Value boolean(bool b) { return Value(b); }
  static Value integer(int64_t i) { return Value(i); }
  /// Decimal digits with an optional sign, as many as there are.
  static Value integer_of_digits(Budget* payer, std::string_view text);
  static Value real(double d) { return Value(d); }
  static Value text(Budget* payer, std::string_view s, bool markup = false);
  static Value text(PaidText s, bool markup = false);
  /// Throws Error when the nesting gets too deep.
  static Value sequence(SequenceKind kind, List items, std::string view_name = "");
  static Value list(List items);
  static Value tuple(List items);
  static Value pair(Budget* payer, Value first, Value second);
  /// Of a |groupby.
  static Value group(Budget& payer, Value grouper, Value members);
  /// Items that `next` makes when they are asked for, out of values nested at most `depth` deep.
  static Value generator(Budget& payer, int depth, std::function<std::optional<Value>()> next);
  static Value dict(Dict d);
  static Value name_space(std::shared_ptr<Namespace> n) { return Value(std::move(n)); }
  /// `depth` is that of the values that `call` holds.
  static Value callable(Budget& payer, std::string name, std::function<Value(Runtime&, Arguments&)> call,
                        int depth = 0);
  static Value callable(Callable c);
  static Value loop(std::shared_ptr<LoopState> l) { return Value(std::move(l)); }
  static Value from_json(const Json& json, Budget* payer = nullptr);

  template <class T>
  const T* get() const {
    return std::get_if<T>(&data_);
  }
  const Missing* as_missing() const {
    static const Missing no_reason;
    const auto* p = std::get_if<std::shared_ptr<const Missing>>(&data_);
    return !p ? nullptr : *p ? p->get() : &no_reason;
  }
  const bool* as_bool() const { return get<bool>(); }
  const int64_t* as_int() const { return get<int64_t>(); }
  const LargeInteger* as_large() const { return pointer<const LargeInteger>(); }
  const double* as_real() const { return get<double>(); }
  const Text* as_text() const { return pointer<const Text>(); }
  const Sequence* as_sequence() const { return pointer<const Sequence>(); }
  const Dict* as_dict() const { return pointer<const Dict>(); }
  Namespace* as_namespace() const { return pointer<Namespace>(); }
  const Callable* as_callable() const { return pointer<const Callable>(); }
  LoopState* as_loop() const { return pointer<LoopState>(); }
  bool is_none() const { return std::holds_alternative<std::nullptr_t>(data_); }
  bool is_undefined() const { return as_missing() != nullptr; }
  bool is_number() const { return as_bool() || is_integer() || as_real(); }
  bool is_integer() const { return as_int() || as_large(); }
  /// Integer value of an integer of at most 64 bits or a boolean.
  bool to_int(int64_t& out) const;
  /// Value of any number as a double, the nearest one. Throws Error for integers above all doubles.
  bool to_real(double& out) const;

  bool truthy() const;
  /// Nesting depth: 0 for what holds no other value. Namespaces count nothing: they are freed one by one.
  int depth() const;
  /// Where it lives, for `is sameas`; null for plain values.
  const void* address() const;

 private:
  using Data = std::variant<std::shared_ptr<const Missing>, std::nullptr_t, bool, int64_t, double,
                            std::shared_ptr<const LargeInteger>, std::shared_ptr<const Text>,
                            std::shared_ptr<const Sequence>, std::shared_ptr<const Dict>, std::shared_ptr<Namespace>,
                            std::shared_ptr<const Callable>, std::shared_ptr<LoopState>>;
  explicit Value(Data data) : data_(std::move(data)) {}
  template <class T>
  T* pointer() const {
    const auto* p = std::get_if<std::shared_ptr<T>>(&data_);
    return p ? p->get() : nullptr;
  }
  Data data_;
};

/// Values that are being collected.
class List {
 public:
  explicit List(Budget* payer) : held_(payer, 0) {}
  List(Budget* payer, const Values& copied) : List(payer) {
    reserve(copied.size());
    if (payer) payer->steps(copied.size(), kValueSteps);
    values_ = copied;
  }

  void push_back(Value v) {
    if (values_.size() == values_.capacity()) reserve(2 * values_.size() + 1);
    if (Budget* payer = held_.payer()) payer->step(kValueSteps);
    values_.push_back(std::move(v));
  }
  /// Room for that many in all.
  void reserve(size_t n);
  size_t size() const { return values_.size(); }
  bool empty() const { return values_.empty(); }
  Value& operator[](size_t i) { return values_[i]; }
  const Value& operator[](size_t i) const { return values_[i]; }
  Value& back() { return values_.back(); }
  Values::iterator begin() { return values_.begin(); }
  Values::iterator end() { return values_.end(); }
  Values::const_iterator begin() const { return values_.begin(); }
  Values::const_iterator end() const { return values_.end(); }
  Budget* payer() const { return held_.payer(); }
  /// Hands over the values, and what is paid for them.
  std::pair<Held, Values> take() { return {std::move(held_), std::move(values_)}; }

 private:
  Held held_;
  Values values_;
};

// Here, since they need to know what a Value is.
inline Dict::Dict(Budget* payer) : held(payer, 0) {}
inline Namespace::Namespace(Budget& payer) : held(&payer, sizeof(Namespace)) {}

struct Callable {
  Held held;
  std::string name;  // for messages
  std::function<Value(Runtime&, Arguments&)> call;
  int depth = 0;                                               // of the values that `call` holds
  std::string printed = {};                                    // as text; empty where that would be an address
  std::vector<std::pair<std::string, Value>> attributes = {};  // of macros
};

/// Python's name of the type ("str", "NoneType") for messages.
std::string type_name(const Value& v);

/// Two numbers by their exact values; NaN has no order.
std::partial_ordering compare_numbers(const Value& a, const Value& b);
/// The decimal digits of an integer or boolean, and of a finite double rounded to a whole number.
std::string integer_text(const Value& v);
std::string digits_of_whole(double d);
/// The nearest double to digits with an optional fraction and exponent: infinite where it is too large. False when
/// `text` is something else.
bool parse_real(const std::string& text, double& out);
/// The nearest double; throws Error when it would be infinite.
double real_of(const LargeInteger& large);

/// Python's ==. Different types are unequal, numbers compare by value.
bool equal(Budget& budget, const Value& a, const Value& b);

/// Python's <; throws Error for types without an order.
bool less(Budget& budget, const Value& a, const Value& b);

/// What str() and repr() give. `str` of an undefined value is empty.
void append_str(PaidText& out, const Value& v);
void append_repr(PaidText& out, const Value& v);
/// For messages, which are short: cut where it is long.
std::string brief_repr(Budget& budget, const Value& v);

/// str() of a value: its own text where it is one.
class AsText {
 public:
  AsText(Budget& budget, const Value& v) : made_(budget) {
    if (const Text* t = v.as_text()) {
      view_ = t->text;
    } else {
      append_str(made_, v);
      view_ = made_.view();
    }
  }
  AsText(const AsText&) = delete;
  AsText& operator=(const AsText&) = delete;
  std::string_view view() const { return view_; }

 private:
  PaidText made_;
  std::string_view view_;
};

void append_repr_of_text(PaidText& out, std::string_view text);
std::string repr_of_real(double d);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool indented = false;
  std::string indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
/// json.dumps; throws Error for what is not JSON.
void append_json(PaidText& out, const Value& v, const JsonStyle& style);

/// Goes through the items that a for loop would see. Generators give each item to one cursor only.
class Cursor {
 public:
  /// Throws Error when the value cannot be iterated.
  Cursor(Budget& budget, Value over);
  /// Nothing behind the last item; errors of a generator's item are thrown here.
  std::optional<Value> next();

 private:
  Budget* budget_;
  Value over_;
  size_t at_ = 0;  // item; byte of a text
};

/// The items that a for loop would see; throws Error when the value cannot be iterated. Consumes a generator.
List iterate(Budget& budget, const Value& v);

}  // namespace kvcal::jinja
