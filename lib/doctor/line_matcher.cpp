#include "doctor/line_matcher.h"

#include <cassert>
#include <deque>

namespace kvcal {

LineMatcher::LineMatcher(std::span<const std::string_view> needles) {
  for (const std::string_view needle : needles)
    for (const char c : needle)
      if (uint8_t& k = class_of_[static_cast<unsigned char>(c)]; k == 0) k = static_cast<uint8_t>(n_classes_++);

  // The trie; a missing child is the start for now.
  next_.assign(n_classes_, kStart);
  depth_.assign(1, 0);
  std::vector<std::vector<uint16_t>> found(1);
  for (size_t i = 0; i < needles.size(); ++i) {
    assert(!needles[i].empty());
    size_t at = kStart;
    for (const char c : needles[i]) {
      const size_t edge = at * n_classes_ + class_of_[static_cast<unsigned char>(c)];
      if (next_[edge] == kStart) {
        assert(depth_.size() < 65000);
        next_[edge] = static_cast<State>(depth_.size());
        next_.resize(next_.size() + n_classes_, kStart);
        depth_.push_back(static_cast<uint16_t>(depth_[at] + 1));
        found.emplace_back();
      }
      at = next_[edge];
    }
    found[at].push_back(static_cast<uint16_t>(i));
  }
  link_failures(found);
}

// Breadth first: a state's failure is shallower, so its row is complete. Missing children become the failure's.
void LineMatcher::link_failures(std::vector<std::vector<uint16_t>>& found) {
  std::vector<State> failure(depth_.size(), kStart);
  std::deque<State> queue = {kStart};
  while (!queue.empty()) {
    const State at = queue.front();
    queue.pop_front();
    for (size_t k = 0; k < n_classes_; ++k) {
      State& child = next_[at * n_classes_ + k];
      const State beyond = at == kStart ? kStart : next_[failure[at] * n_classes_ + k];
      if (child != kStart && depth_[child] == depth_[at] + 1) {
        failure[child] = beyond;
        found[child].insert(found[child].end(), found[beyond].begin(), found[beyond].end());
        queue.push_back(child);
      } else {
        child = beyond;
      }
    }
  }
  first_found_.assign(1, 0);
  for (const std::vector<uint16_t>& ends : found) {
    found_.insert(found_.end(), ends.begin(), ends.end());
    first_found_.push_back(static_cast<uint32_t>(found_.size()));
  }
}

}  // namespace kvcal
