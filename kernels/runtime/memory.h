// Memory of the device: single buffers, and the arena of what lives during one batch.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/runtime/handle.h"
#include "tensor/tensor.h"

namespace kvcal::cuda {

constexpr size_t kAlignment = 256;  // of every tensor on a device

/// What an allocation of n bytes takes of an arena or a heap.
constexpr size_t padded_bytes(size_t n) { return ((n > 0 ? n : 1) + kAlignment - 1) / kAlignment * kAlignment; }

/// Uninitialised, 256-byte aligned. Throws Error with the size when the device has no room.
DeviceBytes allocate_bytes(size_t bytes);

/// Memory of the host that any device reads and writes while the host does something else. Uninitialised. Throws Error.
PinnedBytes allocate_pinned(size_t bytes);

/// Bump allocator in blocks that reset() keeps. Work already queued on the stream may go on reading what reset() has
/// forgotten: later users of the same memory are queued behind it.
class DeviceArena {
 public:
  explicit DeviceArena(cudaStream_t stream, size_t block_bytes = size_t{16} << 20)
      : stream_(stream), block_bytes_(block_bytes) {}

  Tensor allocate(const Shape& shape, DType dtype);

  /// Where it stands. release() forgets what was allocated since then, which a batch may use again.
  struct Position {
    size_t block, used, in_use, guarded;
  };
  Position position() const;
  void release(const Position& since);

  /// Takes that much at once and no more from then on: allocate() throws Error when it is used up. Forgets every
  /// allocation.
  void reserve(size_t bytes);
  size_t reserved() const { return reserved_; }

  /// The most that was in use before a reset(), or is now.
  size_t peak() const { return peak_; }

  /// Forgets every allocation. With poisoning on, fills the blocks with NaN bytes, and throws Error when something was
  /// stored behind the end of a tensor (tests); reserved memory has no room for that.
  void reset();
  void poison_on_reset(bool on) { poison_ = on; }

 private:
  struct Block {
    DeviceBytes memory;
    size_t size = 0, used = 0;
  };
  bool guards() const { return poison_ && reserved_ == 0; }
  /// Of those that were guarded from then on, and forgets them.
  void check_ends(size_t first);

  cudaStream_t stream_;
  size_t block_bytes_;
  std::vector<Block> blocks_;
  size_t current_ = 0, in_use_ = 0, peak_ = 0, reserved_ = 0;
  bool poison_ = false;
  std::vector<Tensor> guarded_;  // with guards(): NaN bytes follow each of them
};

}  // namespace kvcal::cuda
