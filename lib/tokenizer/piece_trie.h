// The pieces of a vocabulary by their prefixes, in little memory: a quarter of a million pieces make a million nodes.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvcal {

/// Immutable after construction.
class PieceTrie {
 public:
  /// A piece's value is its index; of equal pieces the last counts. Memory is at most 9 bytes per byte of text. Throws
  /// Error: a piece of more than 4096 bytes, more than 16 MiB of pieces.
  explicit PieceTrie(const std::vector<std::string>& pieces);

  std::optional<uint32_t> find(std::string_view piece) const;

  struct Match {
    size_t bytes;  // of the text
    uint32_t value;
  };
  /// The longest piece that is `lead` followed by at least one byte that `text` begins with. `seen`: bytes looked at.
  std::optional<Match> longest(std::string_view lead, std::string_view text, size_t* seen = nullptr) const;

  /// Calls found(length in bytes, value) for every piece that `text` begins with, from the shortest; not for "".
  /// Returns how many bytes it looked at.
  template <class Found>
  size_t for_each_prefix(std::string_view text, Found&& found) const {
    uint32_t node = kRoot;
    for (size_t i = 0; i < text.size(); ++i) {
      node = child(node, static_cast<unsigned char>(text[i]));
      if (node == kRoot) return i + 1;
      if (values_[node] != kNone) found(i + 1, values_[node]);
    }
    return text.size();
  }

 private:
  static constexpr uint32_t kRoot = 0;  // no node's child, so it also stands for a child that is missing
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  uint32_t child(uint32_t node, unsigned char label) const;

  // Nodes by rising depth and, at one depth, by their text: the children of a node end where the next node's begin.
  std::vector<unsigned char> labels_;
  std::vector<uint32_t> values_;
  std::vector<uint32_t> first_child_;  // [nodes + 1]
};

}  // namespace kvcal
