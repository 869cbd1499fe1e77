// Bump allocator for the tensors of one batch: reset between batches, never freed piece by piece.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "tensor/tensor.h"

namespace kvcal {

class Arena {
 public:
  /// Grows in blocks of at least block_bytes; the blocks are kept for reuse by reset().
  explicit Arena(size_t block_bytes = size_t{16} << 20) : block_bytes_(block_bytes) {}

  /// 64-byte aligned, not initialized; valid until the next reset().
  Tensor allocate(const Shape& shape, DType dtype);

  /// Forgets every allocation. With poisoning on, fills all blocks with NaN bytes first, so that reading stale memory
  /// shows, and throws Error when something was stored behind the end of a tensor (tests).
  void reset();
  void poison_on_reset(bool on) { poison_ = on; }

  size_t peak_bytes() const { return peak_; }

 private:
  struct Block {
    Storage storage;
    size_t used = 0;
  };
  void check_ends();

  size_t block_bytes_;
  std::vector<Block> blocks_;
  size_t current_ = 0, in_use_ = 0, peak_ = 0;
  bool poison_ = false;
  std::vector<Tensor> guarded_;  // with poisoning on: NaN bytes follow each of them
};

}  // namespace kvcal
