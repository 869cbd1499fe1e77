// Items one by one, as loops and filters take them.

#include "jinja/value.h"
#include "unicode/utf8.h"

namespace kvcal::jinja {
namespace {

// Making an item may run the template, which may ask for an item of the same generator.
std::optional<Value> next_of(const Sequence& generator) {
  struct Running {
    bool& flag;
    ~Running() { flag = false; }
  };
  if (generator.running) fail("generator already executing");
  generator.running = true;
  const Running guard{generator.running};
  return generator.next();
}

}  // namespace

Cursor::Cursor(Budget& budget, Value over) : budget_(&budget), over_(std::move(over)) {
  if (!over_.is_undefined() && !over_.as_sequence() && !over_.as_dict() && !over_.as_text())
    fail("'" + type_name(over_) + "' object is not iterable");
}

std::optional<Value> Cursor::next() {
  budget_->step(kValueSteps);
  if (const Sequence* s = over_.as_sequence()) {
    if (s->kind == SequenceKind::Generator) return next_of(*s);
    if (at_ < s->items.size()) return s->items[at_++];
  } else if (const Dict* d = over_.as_dict()) {
    if (at_ < d->items.size()) return d->items[at_++].first;
  } else if (const Text* t = over_.as_text(); t && at_ < t->text.size()) {
    const size_t n = utf8_length(t->text[at_]);
    at_ += n;
    return Value::text(budget_, std::string_view(t->text).substr(at_ - n, n));
  }
  return std::nullopt;
}

List iterate(Budget& budget, const Value& v) {
  const Sequence* s = v.as_sequence();
  if (s && s->kind != SequenceKind::Generator) return List(&budget, s->items);
  List out(&budget);
  for (Cursor items(budget, v); auto item = items.next();) out.push_back(std::move(*item));
  return out;
}

}  // namespace kvcal::jinja
