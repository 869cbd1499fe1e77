#include "kernels/runtime/pinned_staging.h"

#include "kernels/runtime/memory.h"

namespace kvcal::cuda {

void* PinnedStaging::take(size_t bytes) {
  if (bytes > kBlockBytes) return nullptr;
  const size_t size = padded_bytes(bytes);
  if (used_ + size > kBlockBytes) {
    check(cudaEventRecord(blocks_[current_].read.get(), stream_), "recording an event");
    current_ = (current_ + 1) % kBlocks;
    used_ = 0;
    if (blocks_[current_].memory.get())
      check(cudaEventSynchronize(blocks_[current_].read.get()), "waiting for a copy to the device");
  }
  Block& block = blocks_[current_];
  if (!block.memory.get()) block = {allocate_pinned(kBlockBytes), make_awaited_event()};
  void* const memory = static_cast<char*>(block.memory.get()) + used_;
  used_ += size;
  return memory;
}

}  // namespace kvcal::cuda
