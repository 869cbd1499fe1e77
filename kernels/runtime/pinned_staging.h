// Small arrays of the host on their way to the device: through pinned memory, so that no copy waits for the device.
#pragma once

#include <array>
#include <cstddef>

#include "kernels/runtime/handle.h"

namespace kvcal::cuda {

class PinnedStaging {
 public:
  static constexpr size_t kBlockBytes = size_t{4} << 20, kBlocks = 6;

  explicit PinnedStaging(cudaStream_t stream) : stream_(stream) {}

  /// Memory to fill now and to copy from on the stream before the next call. Waits only when the device is several
  /// blocks behind. Null: too large for a block.
  void* take(size_t bytes);

 private:
  struct Block {
    PinnedBytes memory;
    Event read;
  };
  cudaStream_t stream_;
  std::array<Block, kBlocks> blocks_;
  size_t current_ = 0, used_ = 0;
};

}  // namespace kvcal::cuda
