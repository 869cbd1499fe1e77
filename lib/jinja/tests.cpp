// What stands behind "is".

#include <algorithm>
#include <map>

#include "jinja/python_text.h"
#include "jinja/runtime.h"
#include "unicode/utf8.h"

namespace kvcal::jinja {
namespace {

const Value& only_argument(Arguments& a) {
  if (a.positional.size() != 1 || !a.named.empty()) fail("needs exactly one argument");
  return a.positional[0];
}

void no_argument(Arguments& a) {
  if (!a.positional.empty() || !a.named.empty()) fail("takes no argument");
}

// v % n == remainder, as the language computes it: 2.5 is neither even nor odd.
bool leaves(Runtime& rt, const Value& v, const Value& n, int64_t remainder) {
  return equal(rt, rt.binary("%", v, n), Value::integer(remainder));
}

bool is_sequence(const Value& v) {
  const Sequence* s = v.as_sequence();
  // An undefined value is an empty sequence to Python's len() and indexing.
  return v.is_undefined() || v.as_text() || v.as_dict() ||
         (s && s->kind != SequenceKind::Generator && s->kind != SequenceKind::View);
}

bool is_iterable(const Value& v) { return is_sequence(v) || v.as_sequence() || v.as_loop(); }

// str.islower and str.isupper: at least one cased character and none of the other case.
template <bool Upper>
bool has_only_case(Runtime& rt, const Value& v, Arguments& a) {
  no_argument(a);
  const AsText text(rt, v);
  rt.steps(text.view().size(), kCharacterSteps);
  bool any = false;
  for (size_t i = 0; i < text.view().size();) {
    const char32_t c = next_code_point(text.view(), i);
    const bool wanted = Upper ? python::is_upper(c) : python::is_lower(c);
    if (!wanted && python::is_cased(c)) return false;
    any = any || wanted;
  }
  return any;
}

template <bool (*Property)(const Value&)>
bool property(Runtime&, const Value& v, Arguments& a) {
  no_argument(a);
  return Property(v);
}

bool is_defined(const Value& v) { return !v.is_undefined(); }
bool is_undefined(const Value& v) { return v.is_undefined(); }
bool is_none(const Value& v) { return v.is_none(); }
bool is_boolean(const Value& v) { return v.as_bool() != nullptr; }
bool is_true(const Value& v) { return v.as_bool() && *v.as_bool(); }
bool is_false(const Value& v) { return v.as_bool() && !*v.as_bool(); }
bool is_integer(const Value& v) { return v.is_integer(); }
bool is_float(const Value& v) { return v.as_real() != nullptr; }
bool is_number(const Value& v) { return v.is_number(); }
bool is_string(const Value& v) { return v.as_text() != nullptr; }
bool is_mapping(const Value& v) { return v.as_dict() != nullptr; }
bool is_callable(const Value& v) { return v.as_callable() || v.as_loop() || v.is_undefined(); }
bool is_escaped(const Value& v) { return v.as_text() && v.as_text()->markup; }

template <int Remainder>
bool parity(Runtime& rt, const Value& v, Arguments& a) {
  no_argument(a);
  return leaves(rt, v, Value::integer(2), Remainder);
}

bool divisible_by(Runtime& rt, const Value& v, Arguments& a) { return leaves(rt, v, only_argument(a), 0); }

bool same_as(Runtime& rt, const Value& v, Arguments& a) {
  const Value& other = only_argument(a);
  if (v.address() || other.address()) return v.address() == other.address();
  return type_name(v) == type_name(other) && equal(rt, v, other);
}

template <const char* const& Op>
bool comparison(Runtime& rt, const Value& v, Arguments& a) {
  return rt.compare(Op, v, only_argument(a));
}

const char* const kEq = "==";
const char* const kNe = "!=";
const char* const kLt = "<";
const char* const kLe = "<=";
const char* const kGt = ">";
const char* const kGe = ">=";

bool is_in(Runtime& rt, const Value& v, Arguments& a) { return rt.contains(only_argument(a), v); }

bool is_filter_name(Runtime& rt, const Value& v, Arguments& a) {
  no_argument(a);
  return find_filter(AsText(rt, v).view()) != nullptr;
}

bool is_test_name(Runtime& rt, const Value& v, Arguments& a) {
  no_argument(a);
  return find_test(AsText(rt, v).view()) != nullptr;
}

const std::map<std::string, TestFunction, std::less<>> kTests{
    {"defined", property<is_defined>},
    {"undefined", property<is_undefined>},
    {"none", property<is_none>},
    {"boolean", property<is_boolean>},
    {"true", property<is_true>},
    {"false", property<is_false>},
    {"integer", property<is_integer>},
    {"float", property<is_float>},
    {"number", property<is_number>},
    {"string", property<is_string>},
    {"mapping", property<is_mapping>},
    {"sequence", property<is_sequence>},
    {"iterable", property<is_iterable>},
    {"callable", property<is_callable>},
    {"lower", has_only_case<false>},
    {"upper", has_only_case<true>},
    {"escaped", property<is_escaped>},
    {"even", parity<0>},
    {"odd", parity<1>},
    {"divisibleby", divisible_by},
    {"sameas", same_as},
    {"in", is_in},
    {"filter", is_filter_name},
    {"test", is_test_name},
    {"eq", comparison<kEq>},
    {"equalto", comparison<kEq>},
    {"==", comparison<kEq>},
    {"ne", comparison<kNe>},
    {"!=", comparison<kNe>},
    {"lt", comparison<kLt>},
    {"lessthan", comparison<kLt>},
    {"<", comparison<kLt>},
    {"le", comparison<kLe>},
    {"<=", comparison<kLe>},
    {"gt", comparison<kGt>},
    {"greaterthan", comparison<kGt>},
    {">", comparison<kGt>},
    {"ge", comparison<kGe>},
    {">=", comparison<kGe>},
};

}  // namespace

TestFunction find_test(std::string_view name) {
  const auto it = kTests.find(name);
  return it == kTests.end() ? nullptr : it->second;
}

std::vector<std::string> test_names() {
  std::vector<std::string> names;
  for (const auto& [name, test] : kTests) names.push_back(name);
  return names;
}

}  // namespace kvcal::jinja
