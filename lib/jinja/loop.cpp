#include "jinja/loop.h"

#include <algorithm>

namespace kvcal::jinja {
namespace {

bool has_length(const Value& v) {
  const Sequence* s = v.as_sequence();
  return !s || s->kind != SequenceKind::Generator;
}

}  // namespace

LoopState::LoopState(Budget& budget, const Value& over, size_t depth)
    : held_(&budget, sizeof(LoopState)), budget_(budget), nesting_(over.depth()), items_(budget, over), depth_(depth) {
  if (has_length(over)) length_ = length_of(budget, over);
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
  items_ = Cursor(budget_, Value());
  finished_ = true;
  recurse = {};
  last_change_.reset();
}

int64_t LoopState::length(Runtime& rt) {
  if (length_) return *length_;
  if (finished_) fail("loop.length of a loop that was left before its end");
  const int64_t known = index_ + 1 + (peek() ? 1 : 0);
  List unseen(&rt);
  while (auto item = items_.next()) unseen.push_back(std::move(*item));
  const Value rest = Value::list(std::move(unseen));
  items_ = Cursor(rt, rest);
  length_ = known + static_cast<int64_t>(rest.as_sequence()->items.size());
  return *length_;
}

Value LoopState::changed(Runtime& rt, const Arguments& a) {
  static const Values none;
  const Values& before = last_change_ ? last_change_->positional : none;
  const bool same = seen_change_ && std::equal(a.positional.begin(), a.positional.end(), before.begin(), before.end(),
                                               [&](const Value& x, const Value& y) { return equal(rt, x, y); });
  seen_change_ = true;
  last_change_.reset();
  if (!finished_) last_change_.emplace(a);
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
  if (name == "previtem") return before_ ? *before_ : rt.undefined("there is no previous item");
  if (name == "nextitem") return peek() ? *after_ : rt.undefined("there is no next item");
  if (name == "cycle")
    return Value::callable(rt, name, [i = static_cast<size_t>(index_)](Runtime&, Arguments& a) {
      if (a.positional.empty()) fail("loop.cycle: no items for cycling given");
      return a.positional[i % a.positional.size()];
    });
  if (name == "changed")
    return Value::callable(
        rt, name, [l = shared_from_this()](Runtime& r, Arguments& a) { return l->changed(r, a); }, nesting_);
  return rt.undefined("'loop' has no attribute " + quoted(name));
}

}  // namespace kvcal::jinja
