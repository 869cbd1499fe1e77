#include "jinja/runtime.h"

#include <algorithm>

#include "jinja/python_text.h"

namespace kvcal::jinja {

namespace {

int deepest(const Values& values) {
  int most = 0;
  for (const Value& v : values) most = std::max(most, v.depth());
  return most;
}

}  // namespace

Bound::Bound(const std::string& what, Arguments& arguments, std::initializer_list<const char*> parameters)
    : what_(what), names_(parameters.begin(), parameters.end()), values_(names_.size()), given_(names_.size(), false) {
  if (arguments.positional.size() > names_.size())
    fail(what_ + " takes at most " + std::to_string(names_.size()) + " arguments, " +
         std::to_string(arguments.positional.size()) + " given");
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    values_[i] = arguments.positional[i];
    given_[i] = true;
  }
  for (const auto& [name, value] : arguments.named) {
    const auto it = std::find(names_.begin(), names_.end(), name);
    if (it == names_.end()) fail(what_ + " got an unexpected argument '" + name + "'");
    const auto i = static_cast<size_t>(it - names_.begin());
    if (given_[i]) fail(what_ + " got two values for argument '" + name + "'");
    values_[i] = value;
    given_[i] = true;
  }
}

const Value& Bound::at(size_t i) const {
  if (!given_[i]) fail(what_ + " needs argument '" + names_[i] + "'");
  return values_[i];
}

const std::string& Bound::text(size_t i) const {
  const Text* t = at(i).as_text();
  if (!t) fail(what_ + ": argument '" + names_[i] + "' is " + type_name(values_[i]) + ", expected str");
  return t->text;
}

int64_t Bound::integer(size_t i) const {
  int64_t n = 0;
  if (at(i).as_large())
    fail(what_ + ": argument '" + names_[i] + "' is " + integer_text(at(i)) + ", more than 64 bits");
  if (!at(i).to_int(n)) fail(what_ + ": argument '" + names_[i] + "' is " + type_name(values_[i]) + ", expected int");
  return n;
}

int Bound::depth() const { return deepest(values_); }

int Arguments::depth() const {
  int most = deepest(positional);
  for (const auto& [name, value] : named) most = std::max(most, value.depth());
  return most;
}

// Namespaces may form rings of shared pointers; emptying them frees what they hold.
Runtime::~Runtime() {
  for (const auto& n : namespaces_) {
    // What is freed with the attributes may reach other namespaces, but those are still held by the list.
    const auto attributes = std::move(n->attributes);
    n->attributes.clear();
  }
}

Value Runtime::make_namespace() {
  namespaces_.push_back(std::make_shared<Namespace>(*this));
  return Value::name_space(namespaces_.back());
}

Value Runtime::call_filter(const std::string& name, const Value& input, Arguments& arguments) {
  step();
  const FilterFunction f = find_filter(name);
  if (!f) fail_unknown_filter(name);
  return while_doing("filter '" + name + "'", [&] { return f(*this, input, arguments); });
}

FilterFunction find_filter(std::string_view name) {
  for (const auto find : {find_text_filter, find_sequence_filter, find_number_filter})
    if (const FilterFunction f = find(name)) return f;
  return nullptr;
}

void fail_unknown_filter(const std::string& name) {
  std::vector<std::string> known = text_filter_names();
  for (const auto& names : {sequence_filter_names(), number_filter_names()})
    known.insert(known.end(), names.begin(), names.end());
  fail_unknown("or unsupported filter", name, known);
}

bool Runtime::call_test(const std::string& name, const Value& input, Arguments& arguments) {
  step();
  const TestFunction t = find_test(name);
  if (!t) fail_unknown_test(name);
  return while_doing("test '" + name + "'", [&] { return t(*this, input, arguments); });
}

void fail_unknown_test(const std::string& name) { fail_unknown("or unsupported test", name, test_names()); }

Value Runtime::call(const Value& function, Arguments& arguments) {
  step();
  if (function.is_undefined()) fail_undefined(function);
  const Callable* f = function.as_callable();
  if (!f) fail("'" + type_name(function) + "' object is not callable");
  return f->call(*this, arguments);
}

void fail_undefined(const Value& v) {
  const std::string& reason = v.as_missing()->reason;
  fail(reason.empty() ? "a value that is not defined is used" : reason);
}

int64_t length_of(Budget& budget, const Value& v) {
  if (v.is_undefined()) return 0;
  if (const Text* t = v.as_text()) return static_cast<int64_t>(python::length(budget, t->text));
  if (const Dict* d = v.as_dict()) return static_cast<int64_t>(d->items.size());
  const Sequence* s = v.as_sequence();
  if (s && s->kind != SequenceKind::Generator) return static_cast<int64_t>(s->items.size());
  fail("object of type '" + type_name(v) + "' has no len()");
}

void append_html_escaped(PaidText& out, std::string_view text) {
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '\'')
      out += "&#39;";
    else if (c == '"')
      out += "&#34;";
    else
      out += c;
  }
}

}  // namespace kvcal::jinja
