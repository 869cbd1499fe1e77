#include "jinja/budget.h"

#include <algorithm>

#include "base/error.h"

namespace kvcal::jinja {

void Budget::fail_steps() {
  steps_left_ = 0;
  fail("the template takes more than " + std::to_string(limits_.max_steps) + " steps; does it loop without end?");
}

void Budget::fail_size() const {
  fail("a text or list of more than " + std::to_string(limits_.max_output_bytes) + " bytes");
}

void Budget::fail_held() const {
  fail("the template holds texts and lists of more than " + std::to_string(limits_.max_held_bytes) + " bytes");
}

void PaidText::repeat(std::string_view s, size_t times) {
  if (s.empty() || times == 0) return;
  const size_t most = budget_->limits().max_output_bytes + 1;  // which is refused
  reserve(s.size() > most / times ? most : s.size() * times);
  for (size_t i = 0; i < times; ++i) text_ += s;
}

void PaidText::enlarge(size_t more) {
  const size_t wanted = text_.size() + more;
  budget_->check_size(wanted);
  const size_t capacity = std::max(std::min(2 * text_.capacity(), budget_->limits().max_output_bytes), wanted);
  held_.grow(capacity - text_.capacity());
  text_.reserve(capacity);
}

}  // namespace kvcal::jinja
