#include "tokenizer/piece_trie.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace kvcal {
namespace {

constexpr size_t kLongestPiece = 4096;           // bytes; bounds the work per character of text
constexpr size_t kMostBytes = size_t{16} << 20;  // of all pieces; a quarter of a million pieces have 3 MiB

void check_sizes(const std::vector<std::string>& pieces) {
  size_t bytes = 0;
  for (const std::string& piece : pieces) {
    if (piece.size() > kLongestPiece)
      fail("vocab entry " + quoted(piece) + " has " + std::to_string(piece.size()) + " bytes, at most " +
           std::to_string(kLongestPiece) + " are accepted");
    bytes += piece.size();
  }
  if (bytes > kMostBytes)
    fail("vocab has entries of " + std::to_string(bytes) + " bytes together, at most " + std::to_string(kMostBytes) +
         " are accepted");
}

// Pieces [begin, end) in their order share a prefix, which is the text of a node.
struct Range {
  uint32_t begin, end;
};

// Sorted by text; of equal pieces only the last is kept.
std::vector<uint32_t> sorted_unique(const std::vector<std::string>& pieces) {
  std::vector<uint32_t> order(pieces.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const int c = pieces[a].compare(pieces[b]);
    return c != 0 ? c < 0 : a > b;
  });
  order.erase(std::unique(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return pieces[a] == pieces[b]; }),
              order.end());
  return order;
}

}  // namespace

PieceTrie::PieceTrie(const std::vector<std::string>& pieces) {
  check_sizes(pieces);
  const std::vector<uint32_t> order = sorted_unique(pieces);
  std::vector<Range> level{{0, static_cast<uint32_t>(order.size())}}, next;
  labels_.push_back(0);
  for (size_t depth = 0; !level.empty(); ++depth) {
    next.clear();
    for (Range node : level) {
      const bool ends_here = node.begin < node.end && pieces[order[node.begin]].size() == depth;
      values_.push_back(ends_here ? order[node.begin++] : kNone);
      first_child_.push_back(static_cast<uint32_t>(labels_.size()));
      while (node.begin < node.end) {
        const char label = pieces[order[node.begin]][depth];
        const uint32_t begin = node.begin;
        while (node.begin < node.end && pieces[order[node.begin]][depth] == label) ++node.begin;
        labels_.push_back(static_cast<unsigned char>(label));
        next.push_back({begin, node.begin});
      }
    }
    level.swap(next);
  }
  first_child_.push_back(static_cast<uint32_t>(labels_.size()));
}

std::optional<uint32_t> PieceTrie::find(std::string_view piece) const {
  uint32_t node = kRoot;
  for (char c : piece) {
    node = child(node, static_cast<unsigned char>(c));
    if (node == kRoot) return std::nullopt;
  }
  if (values_[node] == kNone) return std::nullopt;
  return values_[node];
}

std::optional<PieceTrie::Match> PieceTrie::longest(std::string_view lead, std::string_view text, size_t* seen) const {
  uint32_t node = kRoot;
  for (char c : lead) {
    node = child(node, static_cast<unsigned char>(c));
    if (node == kRoot) return std::nullopt;
  }
  std::optional<Match> found;
  for (size_t i = 0; i < text.size(); ++i) {
    node = child(node, static_cast<unsigned char>(text[i]));
    if (seen) *seen = i + 1;
    if (node == kRoot) break;
    if (values_[node] != kNone) found = Match{i + 1, values_[node]};
  }
  return found;
}

uint32_t PieceTrie::child(uint32_t node, unsigned char label) const {
  const auto begin = labels_.begin() + first_child_[node], end = labels_.begin() + first_child_[node + 1];
  const auto it = std::lower_bound(begin, end, label);
  return it != end && *it == label ? static_cast<uint32_t>(it - labels_.begin()) : kRoot;
}

}  // namespace kvcal
