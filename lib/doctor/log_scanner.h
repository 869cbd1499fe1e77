// Reads a log of any size once, in constant memory, and hands out the lines in which a needle was found.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvcal {

/// Finds any of many strings in a stream of bytes, one step per byte: the Aho-Corasick automaton.
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

/// A line, or the piece of a very long one that ends with or after the needle; of a needle broken over two lines, both.
struct FoundLine {
  size_t number;                      // of the first line it stands in, from 1
  std::string_view text;              // normalized, at most 2 * kMostLineBytes
  std::span<const uint16_t> needles;  // without repetition
};

/// What terminals, containers and hosts do to a line is undone before matching: colors and other escape sequences go,
/// carriage returns and NUL bytes (UTF-16) go, runs of spaces, tabs and control characters count as one space, and a
/// needle may be broken by one line end, between words or within one. A line that ends in a backslash goes on in the
/// next.
class LogScanner {
 public:
  static constexpr size_t kMostLineBytes = size_t{16} << 10;

  LogScanner(const LineMatcher& matcher, std::function<void(const FoundLine&)> found)
      : matcher_(matcher), found_(std::move(found)) {}

  void feed(std::string_view bytes);
  void finish();

  size_t n_lines() const { return n_lines_; }
  uint64_t n_bytes() const { return n_bytes_; }

 private:
  enum class Escape : uint8_t { None, Started, Sequence, Text };

  void take(unsigned char byte);
  void take_escape(unsigned char byte);
  void take_text(unsigned char byte);
  void append(unsigned char byte);
  void step(unsigned char byte);
  void end_line();
  void end_piece();
  void note(LineMatcher::State state);
  void deliver();

  const LineMatcher& matcher_;
  std::function<void(const FoundLine&)> found_;
  std::string line_, previous_;  // pieces; previous_ is the end of the line before, for needles that began there
  std::vector<uint16_t> needles_;
  size_t n_lines_ = 0, first_line_ = 1;
  uint64_t n_bytes_ = 0;
  LineMatcher::State state_ = LineMatcher::kStart;
  LineMatcher::State glued_ = LineMatcher::kStart;  // as if the last line end were not there
  size_t since_line_end_ = 0;                       // bytes matched since then
  Escape escape_ = Escape::None;
  bool at_line_start_ = true, pending_space_ = false, spans_lines_ = false, line_has_bytes_ = false;
};

}  // namespace kvcal
