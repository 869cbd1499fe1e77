// Extents of a tensor, outermost first.
#pragma once

#include <array>
#include <cassert>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace kvcal {

class Shape {
 public:
  static constexpr int kMaxRank = 6;

  Shape() = default;  // rank 0: one element
  Shape(std::initializer_list<int64_t> extents) : Shape(std::span<const int64_t>(extents.begin(), extents.size())) {}
  explicit Shape(std::span<const int64_t> extents) : rank_(static_cast<int>(extents.size())) {
    assert(extents.size() <= kMaxRank);
    for (int i = 0; i < rank_; ++i) extents_[static_cast<size_t>(i)] = extents[static_cast<size_t>(i)];
  }

  int rank() const { return rank_; }

  /// Extent i; negative counts from the last.
  int64_t operator[](int i) const {
    assert(i < rank_ && i >= -rank_);
    return extents_[static_cast<size_t>(i < 0 ? rank_ + i : i)];
  }

  int64_t elements() const {
    int64_t n = 1;
    for (int i = 0; i < rank_; ++i) n *= extents_[static_cast<size_t>(i)];
    return n;
  }

  bool operator==(const Shape& o) const {
    if (rank_ != o.rank_) return false;
    for (int i = 0; i < rank_; ++i)
      if ((*this)[i] != o[i]) return false;
    return true;
  }

 private:
  std::array<int64_t, kMaxRank> extents_{};
  int rank_ = 0;
};

/// "[1024, 4096]"
std::string str(const Shape& shape);

}  // namespace kvcal
