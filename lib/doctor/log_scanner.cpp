#include "doctor/log_scanner.h"

#include <algorithm>
#include <cassert>
#include <deque>

namespace kvcal {
namespace {

constexpr unsigned char kEscape = 0x1B, kBell = 0x07;

}  // namespace

void LogScanner::feed(std::string_view bytes) {
  n_bytes_ += bytes.size();
  for (const char c : bytes) take(static_cast<unsigned char>(c));
}

void LogScanner::take(unsigned char byte) {
  if (escape_ != Escape::None && byte != '\n')
    take_escape(byte);
  else if (byte > ' ' && byte != 0x7F && !(byte == '>' && at_line_start_))  // Markdown's quotation
    take_text(byte);
  else if (byte == '\n')
    end_line();
  else if (byte == kEscape)
    escape_ = Escape::Started;
  else if (byte != '\0' && byte != '\r')
    pending_space_ = !at_line_start_;
  if (byte != '\n') line_has_bytes_ = true;
}

// ESC [ ... letter, ESC ] text BEL, or ESC and one more byte. An unfinished one ends with its line.
void LogScanner::take_escape(unsigned char byte) {
  switch (escape_) {
    case Escape::Started:
      escape_ = byte == '[' ? Escape::Sequence : byte == ']' ? Escape::Text : Escape::None;
      break;
    case Escape::Sequence:
      if (byte >= '@' && byte <= '~') escape_ = Escape::None;
      break;
    case Escape::Text:
      if (byte == kBell || byte == kEscape) escape_ = byte == kEscape ? Escape::Started : Escape::None;
      break;
    case Escape::None:
      break;
  }
}

void LogScanner::take_text(unsigned char byte) {
  if (pending_space_) {
    pending_space_ = false;
    append(' ');
  }
  at_line_start_ = false;
  append(byte);
}

void LogScanner::append(unsigned char byte) {
  if (line_.size() == kMostLineBytes) end_piece();
  line_.push_back(static_cast<char>(byte));
  step(byte);
}

void LogScanner::step(unsigned char byte) {
  state_ = matcher_.step(state_, byte);
  ++since_line_end_;
  if (matcher_.any_found(state_)) note(state_);
  if (glued_ == LineMatcher::kStart) return;
  glued_ = matcher_.step(glued_, byte);
  // What it remembers is younger than the line end: the other state knows it too.
  if (matcher_.depth(glued_) <= since_line_end_)
    glued_ = LineMatcher::kStart;
  else if (matcher_.any_found(glued_))
    note(glued_);
}

void LogScanner::note(LineMatcher::State state) {
  for (const uint16_t needle : matcher_.found(state))
    if (std::find(needles_.begin(), needles_.end(), needle) == needles_.end()) needles_.push_back(needle);
  spans_lines_ |= matcher_.depth(state) > since_line_end_;
}

void LogScanner::end_line() {
  escape_ = Escape::None;
  ++n_lines_;
  line_has_bytes_ = false;
  pending_space_ = false;
  at_line_start_ = true;
  if (line_.ends_with('\\')) {  // a command that goes on
    line_.back() = ' ';
    state_ = matcher_.step(LineMatcher::kStart, ' ');
    return;
  }
  deliver();
  previous_.swap(line_);
  line_.clear();
  first_line_ = n_lines_ + 1;
  glued_ = state_;
  state_ = matcher_.step(state_, ' ');
  since_line_end_ = 0;
}

// Goes on with the same line: needles across the cut are still found.
void LogScanner::end_piece() {
  deliver();
  previous_.swap(line_);
  line_.clear();
  since_line_end_ = 0;
}

void LogScanner::deliver() {
  if (needles_.empty()) return;
  if (!spans_lines_) {
    found_({first_line_, line_, needles_});
  } else {
    const size_t lines_back = first_line_ > 1 ? 1 : 0;
    previous_ += ' ';
    previous_ += line_;
    found_({first_line_ - lines_back, previous_, needles_});
  }
  needles_.clear();
  spans_lines_ = false;
}

void LogScanner::finish() {
  if (line_has_bytes_) ++n_lines_;
  deliver();
  line_.clear();
}

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
