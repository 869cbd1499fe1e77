#include "kernels/runtime/memory.h"

#include <algorithm>

namespace kvcal::cuda {

DeviceBytes allocate_bytes(size_t bytes) {
  void* pointer = nullptr;
  check(cudaMalloc(&pointer, std::max<size_t>(bytes, 1)), "allocating " + std::to_string(bytes) + " bytes");
  return DeviceBytes(pointer);
}

PinnedBytes allocate_pinned(size_t bytes) {
  void* pointer = nullptr;
  check(cudaHostAlloc(&pointer, std::max<size_t>(bytes, 1), cudaHostAllocDefault),
        "allocating " + std::to_string(bytes) + " bytes of pinned memory");
  return PinnedBytes(pointer);
}

Tensor DeviceArena::allocate(const Shape& shape, DType dtype) {
  constexpr size_t kAlignment = 256;
  Tensor t{nullptr, shape, dtype, Device::Cuda};
  const size_t bytes = (std::max<size_t>(t.bytes(), 1) + kAlignment - 1) / kAlignment * kAlignment;
  while (current_ < blocks_.size() && blocks_[current_].size - blocks_[current_].used < bytes) ++current_;
  if (current_ == blocks_.size()) {
    const size_t size = std::max(bytes, block_bytes_);
    blocks_.push_back({allocate_bytes(size), size, 0});
  }
  Block& block = blocks_[current_];
  t.data = static_cast<char*>(block.memory.get()) + block.used;
  block.used += bytes;
  return t;
}

void DeviceArena::reset() {
  for (Block& b : blocks_) {
    if (poison_) check(cudaMemsetAsync(b.memory.get(), 0xFF, b.size, stream_), "filling temporary memory");
    b.used = 0;
  }
  current_ = 0;
}

}  // namespace kvcal::cuda
