#include "kernels/runtime/memory.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace kvcal::cuda {
namespace {

constexpr unsigned char kPoisonByte = 0xFF;  // every float type reads 0xFF... as NaN

unsigned char* end_of(const Tensor& t) { return static_cast<unsigned char*>(t.data) + t.bytes(); }

}  // namespace

DeviceBytes allocate_bytes(size_t bytes) {
  void* pointer = nullptr;
  check(cudaMalloc(&pointer, std::max<size_t>(bytes, 1)), "allocating " + std::to_string(bytes) + " bytes");
  return DeviceBytes(pointer);
}

PinnedBytes allocate_pinned(size_t bytes) {
  void* pointer = nullptr;
  check(cudaHostAlloc(&pointer, std::max<size_t>(bytes, 1), cudaHostAllocPortable),
        "allocating " + std::to_string(bytes) + " bytes of pinned memory");
  return PinnedBytes(pointer);
}

Tensor DeviceArena::allocate(const Shape& shape, DType dtype) {
  Tensor t{nullptr, shape, dtype, Device::Cuda};
  const size_t bytes = padded_bytes(t.bytes()) + (guards() ? kAlignment : 0);
  while (current_ < blocks_.size() && blocks_[current_].size - blocks_[current_].used < bytes) ++current_;
  if (current_ == blocks_.size() && reserved_ > 0)
    fail("a batch needs " + std::to_string(bytes) + " bytes for " + str(t) + ", but " + std::to_string(in_use_) +
         " of the " + std::to_string(reserved_) +
         " that the memory plan took for batches are in use; the plan counts too little for this model: take a smaller "
         "--chunk-tokens");
  if (current_ == blocks_.size()) {
    const size_t size = std::max(bytes, block_bytes_);
    blocks_.push_back({allocate_bytes(size), size, 0});
  }
  Block& block = blocks_[current_];
  t.data = static_cast<char*>(block.memory.get()) + block.used;
  block.used += bytes;
  in_use_ += bytes;
  peak_ = std::max(peak_, in_use_);
  if (guards()) {
    check(cudaMemsetAsync(end_of(t), kPoisonByte, kAlignment, stream_), "filling what follows a tensor");
    guarded_.push_back(t);
  }
  return t;
}

void DeviceArena::check_ends(size_t first) {
  const std::vector<Tensor> ending(guarded_.begin() + static_cast<ptrdiff_t>(first), guarded_.end());
  guarded_.resize(first);
  for (const Tensor& t : ending) {
    std::array<unsigned char, kAlignment> bytes;
    check(cudaMemcpyAsync(bytes.data(), end_of(t), bytes.size(), cudaMemcpyDeviceToHost, stream_),
          "reading what follows a tensor");
    check(cudaStreamSynchronize(stream_), "reading what follows a tensor");
    if (std::ranges::any_of(bytes, [](unsigned char byte) { return byte != kPoisonByte; }))
      fail("something was stored past the end of " + str(t));
  }
}

DeviceArena::Position DeviceArena::position() const {
  return {current_, current_ < blocks_.size() ? blocks_[current_].used : 0, in_use_, guarded_.size()};
}

void DeviceArena::release(const Position& since) {
  check_ends(since.guarded);
  for (size_t b = since.block; b < blocks_.size(); ++b) blocks_[b].used = b == since.block ? since.used : 0;
  current_ = since.block;
  in_use_ = since.in_use;
}

void DeviceArena::reserve(size_t bytes) {
  blocks_.clear();
  guarded_.clear();
  current_ = in_use_ = peak_ = 0;
  reserved_ = padded_bytes(bytes);
  blocks_.push_back({allocate_bytes(reserved_), reserved_, 0});
}

void DeviceArena::reset() {
  check_ends(0);
  for (Block& b : blocks_) {
    if (poison_) check(cudaMemsetAsync(b.memory.get(), kPoisonByte, b.size, stream_), "filling temporary memory");
    b.used = 0;
  }
  current_ = in_use_ = 0;
}

}  // namespace kvcal::cuda
