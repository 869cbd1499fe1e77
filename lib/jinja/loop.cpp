#include "jinja/loop.h"

#include <algorithm>

namespace kvcal::jinja {
namespace {

bool has_length(const Value& v) {
  const Sequence* s = v.as_sequence();
  return !s || s->kind != SequenceKind::Generator;
}

}  // namespace

LoopState::LoopState(const Value& over, size_t depth) : items_(over), depth_(depth) {
  if (has_length(over)) length_ = length_of(over);
}

const std::optional<Value>& LoopState::peek() {
  if (!after_ && !exhausted_ && !finished_) {
    after_ = items_.next();
    exhausted_ = !after_;
  }
  return after_;
}

const Value* LoopState::advance() {
  if (!peek()) return nullptr;
  before_ = std::move(current_);
  current_ = std::exchange(after_, std::nullopt);
  ++index_;
  return &*current_;
}

void LoopState::finish() {
  if (!length_ && exhausted_) length_ = index_ + 1 + (after_ ? 1 : 0);
  items_ = Cursor(Value());
  finished_ = true;
  recurse = {};
  last_change_.clear();
}

int64_t LoopState::length(Runtime& rt) {
  if (length_) return *length_;
  if (finished_) fail("loop.length of a loop that was left before its end");
  const int64_t known = index_ + 1 + (peek() ? 1 : 0);
  Values unseen;
  while (auto item = items_.next()) unseen.push_back(std::move(*item));
  const Value rest = rt.list(std::move(unseen));
  items_ = Cursor(rest);
  length_ = known + static_cast<int64_t>(rest.as_sequence()->items.size());
  return *length_;
}

Value LoopState::changed(const Arguments& a) {
  const bool same = seen_change_ && std::equal(a.positional.begin(), a.positional.end(), last_change_.begin(),
                                               last_change_.end(), equal);
  seen_change_ = true;
  if (!finished_) last_change_ = a.positional;
  return Value::boolean(!same);
}

Value LoopState::attribute(Runtime& rt, const std::string& name) {
  const auto depth = static_cast<int64_t>(depth_);
  if (name == "index") return Value::integer(index_ + 1);
  if (name == "index0") return Value::integer(index_);
  if (name == "revindex") return Value::integer(length(rt) - index_);
  if (name == "revindex0") return Value::integer(length(rt) - index_ - 1);
  if (name == "first") return Value::boolean(index_ == 0);
  if (name == "last") return Value::boolean(!peek());
  if (name == "length") return Value::integer(length(rt));
  if (name == "depth") return Value::integer(depth + 1);
  if (name == "depth0") return Value::integer(depth);
  if (name == "previtem") return before_ ? *before_ : Value::undefined("there is no previous item");
  if (name == "nextitem") return peek() ? *after_ : Value::undefined("there is no next item");
  if (name == "cycle")
    return Value::callable(name, [i = static_cast<size_t>(index_)](Runtime&, Arguments& a) {
      if (a.positional.empty()) fail("loop.cycle: no items for cycling given");
      return a.positional[i % a.positional.size()];
    });
  if (name == "changed")
    return Value::callable(name, [l = shared_from_this()](Runtime&, Arguments& a) { return l->changed(a); });
  return Value::undefined("'loop' has no attribute " + quoted(name));
}

}  // namespace kvcal::jinja
