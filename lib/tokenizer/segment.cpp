#include "tokenizer/segment.h"

#include <algorithm>

namespace kvcal {
namespace {

struct Part {
  ByteRange span;
  bool delimiter;
};

std::vector<Part> parts_of(const std::vector<ByteRange>& matches, size_t size, bool invert) {
  std::vector<Part> parts;
  parts.reserve(2 * matches.size() + 1);
  size_t previous = 0;
  for (const ByteRange& m : matches) {
    if (previous != m.begin) parts.push_back({{previous, m.begin}, invert});
    parts.push_back({m, !invert});
    previous = m.end;
  }
  if (previous != size) parts.push_back({{previous, size}, invert});
  return parts;
}

// Joins a delimiter to the part before it unless that is a delimiter too, as the reference does.
std::vector<ByteRange> merged_with_previous(const std::vector<Part>& parts) {
  std::vector<ByteRange> out;
  bool after_delimiter = false;
  for (const Part& p : parts) {
    if (p.delimiter && !after_delimiter && !out.empty())
      out.back().end = p.span.end;
    else
      out.push_back(p.span);
    after_delimiter = p.delimiter;
  }
  return out;
}

std::vector<ByteRange> merged_with_next(const std::vector<Part>& parts) {
  std::vector<ByteRange> out;
  bool before_delimiter = false;
  for (auto p = parts.rbegin(); p != parts.rend(); ++p) {
    if (p->delimiter && !before_delimiter && !out.empty())
      out.back().begin = p->span.begin;
    else
      out.push_back(p->span);
    before_delimiter = p->delimiter;
  }
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<ByteRange> contiguous(const std::vector<Part>& parts) {
  std::vector<ByteRange> out;
  bool delimiter = false;
  for (const Part& p : parts) {
    if (p.delimiter == delimiter && !out.empty())
      out.back().end = p.span.end;
    else
      out.push_back(p.span);
    delimiter = p.delimiter;
  }
  return out;
}

}  // namespace

void append_split(const std::vector<ByteRange>& matches, size_t size, SplitBehavior behavior, bool invert,
                  size_t offset, std::vector<ByteRange>& out) {
  const auto keep = [&](const ByteRange& s) {
    if (s.size() > 0) out.push_back({s.begin + offset, s.end + offset});
  };
  const std::vector<Part> parts = parts_of(matches, size, invert);
  switch (behavior) {
    case SplitBehavior::Removed:
      for (const Part& p : parts)
        if (!p.delimiter) keep(p.span);
      return;
    case SplitBehavior::Isolated:
      for (const Part& p : parts) keep(p.span);
      return;
    case SplitBehavior::MergedWithPrevious:
      for (const ByteRange& s : merged_with_previous(parts)) keep(s);
      return;
    case SplitBehavior::MergedWithNext:
      for (const ByteRange& s : merged_with_next(parts)) keep(s);
      return;
    case SplitBehavior::Contiguous:
      for (const ByteRange& s : contiguous(parts)) keep(s);
      return;
  }
}

}  // namespace kvcal
