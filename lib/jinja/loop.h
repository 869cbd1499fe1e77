// What "loop" is inside a for.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "jinja/runtime.h"

namespace kvcal::jinja {

/// Where a loop stands, how to look ahead, and how to recurse. Items are made when they are asked for: `loop.last` asks
/// for the next one, `loop.length` for all of them.
class LoopState : public std::enable_shared_from_this<LoopState> {
 public:
  /// `depth` counts the loops of a recursion from 0. Throws Error when `over` cannot be iterated.
  LoopState(Budget& budget, const Value& over, size_t depth);

  /// Goes to the next item; null behind the last one.
  const Value* advance();
  /// Ends the loop; a template may keep it. Nothing is remembered any more: a loop that holds itself would never be
  /// freed.
  void finish();
  Value attribute(Runtime& rt, const std::string& name);
  /// Of the values it holds, and keeps after its end.
  int nesting() const { return nesting_; }

  std::function<Value(Runtime&, Arguments&)> recurse;  // empty unless {% for ... recursive %}

 private:
  const std::optional<Value>& peek();
  int64_t length(Runtime& rt);
  Value changed(Runtime& rt, const Arguments& arguments);

  Held held_;
  Budget& budget_;
  int nesting_;
  Cursor items_;
  std::optional<int64_t> length_;
  size_t depth_;
  int64_t index_ = -1;  // from 0
  std::optional<Value> before_, current_, after_;
  bool exhausted_ = false;  // there is no item behind current_ and after_
  bool finished_ = false;
  bool seen_change_ = false;
  std::optional<Arguments> last_change_;
};

}  // namespace kvcal::jinja
