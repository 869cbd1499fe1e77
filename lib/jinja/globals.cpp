// Functions that every template may call.

#include <algorithm>

#include "jinja/runtime.h"

namespace kvcal::jinja {
namespace {

Value range(Runtime& rt, Arguments& a) {
  Bound b("range", a, {"start", "stop", "step"});
  const bool one = !b.has(1);
  const int64_t start = one ? 0 : b.integer(0), stop = one ? b.integer(0) : b.integer(1), step = b.integer_or(2, 1);
  constexpr int64_t kLongest = 100'000;  // the reference's sandbox has the same limit
  if (step == 0) fail("range: step must not be zero");
  Values items;
  for (__int128 i = start; step > 0 ? i < stop : i > stop; i += step) {
    if (static_cast<int64_t>(items.size()) >= kLongest) fail("range longer than " + std::to_string(kLongest));
    items.push_back(Value::integer(static_cast<int64_t>(i)));
  }
  std::string text = "range(" + std::to_string(start) + ", " + std::to_string(stop);
  if (step != 1) text += ", " + std::to_string(step);
  rt.charge(items.size() * sizeof(Value));
  return Value::sequence(SequenceKind::Range, std::move(items), text + ")");
}

// dict(pairs or dict, **more); namespace() takes the same.
Dict make_dict(const char* what, Arguments& a) {
  Dict d;
  if (a.positional.size() > 1) fail(std::string(what) + " takes at most one positional argument");
  if (a.positional.size() == 1) {
    const Value& from = a.positional[0];
    if (const Dict* other = from.as_dict()) {
      d = *other;
    } else {
      for (const Value& pair : iterate(from)) {
        const Values two = iterate(pair);
        if (two.size() != 2) fail(std::string(what) + ": expected pairs of key and value");
        d.set(two[0], two[1]);
      }
    }
  }
  for (const auto& [name, value] : a.named) d.set(Value::text(name), value);
  return d;
}

Value make_namespace(Runtime& rt, Arguments& a) {
  Value n = rt.make_namespace();
  for (auto& [key, value] : make_dict("namespace", a).items) {
    const std::string name = to_str(key);
    if (name.starts_with("_")) fail("namespace attribute '" + name + "' begins with an underscore");
    n.as_namespace()->attributes.emplace_back(name, value);
  }
  return n;
}

Value raise_exception(Runtime&, Arguments& a) {
  Bound b("raise_exception", a, {"message"});
  fail("the template raises: " + to_str(b.at(0)));
}

Value strftime_now(Runtime& rt, Arguments& a) {
  Bound b("strftime_now", a, {"format"});
  return rt.text(format_time(b.text(0), rt.unix_seconds()));
}

// joiner(sep): nothing on the first call, the separator on each later one.
Value joiner(Runtime&, Arguments& a) {
  Bound b("joiner", a, {"sep"});
  const std::string separator = b.text_or(0, ", ");
  auto used = std::make_shared<bool>(false);
  return Value::callable("joiner", [separator, used](Runtime&, Arguments&) {
    return Value::text(std::exchange(*used, true) ? separator : "");
  });
}

}  // namespace

Value find_global(const std::string& name) {
  if (name == "range") return Value::callable(name, range);
  if (name == "namespace") return Value::callable(name, make_namespace);
  if (name == "dict")
    return Value::callable(name, [](Runtime&, Arguments& a) { return Value::dict(make_dict("dict", a)); });
  if (name == "raise_exception") return Value::callable(name, raise_exception);
  if (name == "strftime_now") return Value::callable(name, strftime_now);
  if (name == "joiner") return Value::callable(name, joiner);
  if (name == "cycler" || name == "lipsum")
    return Value::callable(name,
                           [name](Runtime&, Arguments&) -> Value { fail("function '" + name + "' is not supported"); });
  return Value();
}

}  // namespace kvcal::jinja
