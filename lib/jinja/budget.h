// What running a template may take, in time and in memory. Templates come from files nobody vouches for, and values
// share their parts: fifty lists inside each other print as 2^50 numbers. So whatever an operation walks or makes it
// pays for here, beforehand. Functions that walk or make values take the budget, and cannot be called without one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace kvcal::jinja {

struct Limits {
  size_t max_steps = 2'000'000'000;            // about a second; see Budget::step
  size_t max_depth = 100;                      // macros and recursive loops inside each other
  size_t max_output_bytes = size_t{64} << 20;  // of the rendering, and of any one text or list on the way
  size_t max_held_bytes = size_t{128} << 20;   // of all values alive at one time, but for those that were given
};

// Prices in steps. One is half a nanosecond at most: a byte copied, compared or searched.
constexpr size_t kExpressionSteps = 100;  // a statement, an expression, a call
constexpr size_t kValueSteps = 40;        // a value looked at, copied or freed
constexpr size_t kCharacterSteps = 30;    // a character looked up in tables
constexpr size_t kAppendSteps = 8;
constexpr size_t kAllocationSteps = 100;
constexpr size_t kRealSteps = 500;  // a double to decimal digits

class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits), steps_left_(limits.max_steps) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  /// Pays for work that is about to be done; throws Error when there was too much.
  void step(size_t n = kExpressionSteps) {
    if (n > steps_left_) fail_steps();
    steps_left_ -= n;
  }
  /// n times `each`, whatever their product is.
  void steps(size_t n, size_t each) {
    if (each > 0 && n > steps_left_ / each) fail_steps();
    step(n * each);
  }
  /// Memory about to be taken; Held does it.
  void hold(size_t bytes) {
    step(kAllocationSteps + bytes / 2);
    if (bytes > limits_.max_held_bytes - held_) fail_held();
    held_ += bytes;
  }
  /// Of one text or list.
  void check_size(size_t bytes) const {
    if (bytes > limits_.max_output_bytes) fail_size();
  }
  void release(size_t bytes) noexcept { held_ -= bytes; }
  const Limits& limits() const { return limits_; }
  size_t steps_left() const { return steps_left_; }

 private:
  [[noreturn]] void fail_steps();
  [[noreturn]] void fail_size() const;
  [[noreturn]] void fail_held() const;

  const Limits limits_;
  size_t steps_left_;
  size_t held_ = 0;
};

/// The memory of something that a rendering makes, paid for while it lives. As the first member of a struct it pays for
/// a copy before the copy is made.
class Held {
 public:
  Held() = default;  // not paid for: of what was given, which its reader has bounded
  Held(Budget* budget, size_t bytes) : budget_(budget) { grow(bytes); }
  Held(const Held& o) : Held(o.budget_, o.bytes_) {}
  Held(Held&& o) noexcept : budget_(o.budget_), bytes_(std::exchange(o.bytes_, 0)) {}
  Held& operator=(Held o) noexcept {
    std::swap(budget_, o.budget_);
    std::swap(bytes_, o.bytes_);
    return *this;
  }
  ~Held() {
    if (budget_) budget_->release(bytes_);
  }
  void grow(size_t bytes) {
    if (!budget_) return;
    budget_->hold(bytes);
    bytes_ += bytes;
  }
  Budget* payer() const { return budget_; }

 private:
  Budget* budget_ = nullptr;
  size_t bytes_ = 0;
};

/// A text that is being made.
class PaidText {
 public:
  explicit PaidText(Budget& budget) : budget_(&budget), held_(&budget, 0) {}
  PaidText& operator+=(std::string_view s) {
    reserve(s.size());
    text_ += s;
    return *this;
  }
  PaidText& operator+=(char c) {
    reserve(1);
    text_ += c;
    return *this;
  }
  /// Appends `s` that many times.
  void repeat(std::string_view s, size_t times);
  /// Makes room for that many more bytes.
  void reserve(size_t more) {
    budget_->step(more + kAppendSteps);
    if (more > text_.capacity() - text_.size()) enlarge(more);
  }
  std::string_view view() const { return text_; }
  size_t size() const { return text_.size(); }
  Budget& budget() const { return *budget_; }
  /// Hands over the text, and what is paid for it.
  std::pair<std::string, Held> take() { return {std::move(text_), std::move(held_)}; }

 private:
  void enlarge(size_t more);

  Budget* budget_;
  Held held_;
  std::string text_;
};

}  // namespace kvcal::jinja
