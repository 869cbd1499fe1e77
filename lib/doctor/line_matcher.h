// Finds any of many strings in a stream of bytes, one step per byte: the Aho-Corasick automaton.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace kvcal {

class LineMatcher {
 public:
  /// Needles are matched as bytes and must not be empty; fewer than 65,000 bytes in all.
  explicit LineMatcher(std::span<const std::string_view> needles);

  using State = uint16_t;
  static constexpr State kStart = 0;

  State step(State state, unsigned char byte) const { return next_[size_t{state} * n_classes_ + class_of_[byte]]; }

  /// The needles that end here, longest first: indexes into the span given.
  std::span<const uint16_t> found(State state) const {
    return {found_.data() + first_found_[state], found_.data() + first_found_[state + 1]};
  }
  bool any_found(State state) const { return first_found_[state] != first_found_[state + 1]; }

  /// How many of the last bytes the automaton still remembers.
  size_t depth(State state) const { return depth_[state]; }

 private:
  void link_failures(std::vector<std::vector<uint16_t>>& found);

  std::array<uint8_t, 256> class_of_{};  // bytes that no needle has share class 0
  size_t n_classes_ = 1;
  std::vector<State> next_;  // [state][class]
  std::vector<uint16_t> depth_;
  std::vector<uint32_t> first_found_;  // [state + 1]: ranges of found_
  std::vector<uint16_t> found_;
};

}  // namespace kvcal
