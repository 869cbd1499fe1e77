// Functions that every template may call.

#include <map>

#include "jinja/runtime.h"

namespace kvcal::jinja {
namespace {

Value range(Runtime& rt, Arguments& a) {
  Bound b("range", a, {"start", "stop", "step"});
  const bool one = !b.has(1);
  const int64_t start = one ? 0 : b.integer(0), stop = one ? b.integer(0) : b.integer(1), step = b.integer_or(2, 1);
  constexpr int64_t kLongest = 100'000;  // the reference's sandbox has the same limit
  if (step == 0) fail("range: step must not be zero");
  List items(&rt);
  for (__int128 i = start; step > 0 ? i < stop : i > stop; i += step) {
    if (static_cast<int64_t>(items.size()) >= kLongest) fail("range longer than " + std::to_string(kLongest));
    items.push_back(Value::integer(static_cast<int64_t>(i)));
  }
  std::string text = "range(" + std::to_string(start) + ", " + std::to_string(stop);
  if (step != 1) text += ", " + std::to_string(step);
  return Value::sequence(SequenceKind::Range, std::move(items), text + ")");
}

// dict(pairs or dict, **more); namespace() takes the same.
Dict make_dict(Runtime& rt, const char* what, Arguments& a) {
  Dict d(&rt);
  if (a.positional.size() > 1) fail(std::string(what) + " takes at most one positional argument");
  if (a.positional.size() == 1) {
    const Value& from = a.positional[0];
    if (const Dict* other = from.as_dict()) {
      for (const auto& [key, value] : other->items) d.set(key, value);
    } else {
      for (Cursor pairs(rt, from); const auto pair = pairs.next();) {
        const List two = iterate(rt, *pair);
        if (two.size() != 2) fail(std::string(what) + ": expected pairs of key and value");
        d.set(two[0], two[1]);
      }
    }
  }
  for (const auto& [name, value] : a.named) d.set(rt.text(name), value);
  return d;
}

Value make_namespace(Runtime& rt, Arguments& a) {
  Value n = rt.make_namespace();
  for (const auto& [key, value] : make_dict(rt, "namespace", a).items) {
    PaidText name(rt);
    append_str(name, key);
    if (name.view().starts_with("_"))
      fail("namespace attribute '" + std::string(name.view()) + "' begins with an underscore");
    rt.steps(n.as_namespace()->attributes.size(), 4);
    n.as_namespace()->set(std::string(name.view()), value);
  }
  return n;
}

Value raise_exception(Runtime& rt, Arguments& a) {
  Bound b("raise_exception", a, {"message"});
  fail("the template raises: " + std::string(AsText(rt, b.at(0)).view()));
}

Value strftime_now(Runtime& rt, Arguments& a) {
  Bound b("strftime_now", a, {"format"});
  PaidText out(rt);
  append_time(out, b.text(0), rt.unix_seconds());
  return Value::text(std::move(out));
}

// joiner(sep): nothing on the first call, the separator on each later one.
Value joiner(Runtime& rt, Arguments& a) {
  Bound b("joiner", a, {"sep"});
  const Value separator = b.get_or(0, rt.text(", "));
  if (!separator.as_text()) b.text(0);
  auto used = std::make_shared<bool>(false);
  return Value::callable(rt, "joiner", [separator, used](Runtime& r, Arguments&) {
    return std::exchange(*used, true) ? separator : r.text("");
  });
}

Value dict(Runtime& rt, Arguments& a) { return Value::dict(make_dict(rt, "dict", a)); }

}  // namespace

Value find_global(Budget& budget, const std::string& name) {
  using Function = Value (*)(Runtime&, Arguments&);
  static const std::map<std::string, Function, std::less<>> functions{
      {"range", range},   {"namespace", make_namespace}, {"dict", dict}, {"raise_exception", raise_exception},
      {"joiner", joiner}, {"strftime_now", strftime_now}};
  if (const auto it = functions.find(name); it != functions.end()) return Value::callable(budget, name, it->second);
  if (name == "cycler" || name == "lipsum")
    return Value::callable(budget, name,
                           [name](Runtime&, Arguments&) -> Value { fail("function '" + name + "' is not supported"); });
  return Value();
}

}  // namespace kvcal::jinja
