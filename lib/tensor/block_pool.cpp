#include "tensor/block_pool.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <new>
#ifdef __linux__
#include <sys/mman.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#endif
#endif
#ifndef ASAN_POISON_MEMORY_REGION
#define ASAN_POISON_MEMORY_REGION(memory, bytes) (static_cast<void>(memory), static_cast<void>(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(memory, bytes) (static_cast<void>(memory), static_cast<void>(bytes))
#endif

namespace kvcal {
namespace {

constexpr size_t kCacheLine = 64;  // and one AVX-512 register
constexpr size_t kLargePage = size_t{2} << 20;
constexpr size_t kPooled = size_t{1} << 20;  // smaller ones are malloc's business, which keeps them itself

size_t rounded_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

/// A layer's weights would otherwise cost thousands of page faults, and misses ever after; an expert's are small, but
/// there are hundreds. Only where rounding up wastes no more than an eighth.
size_t alignment_for(size_t bytes) {
  return bytes > 0 && rounded_up(bytes, kLargePage) - bytes <= bytes / 8 ? kLargePage : kCacheLine;
}

void* allocate(size_t bytes, size_t alignment) {
  void* const memory = std::aligned_alloc(alignment, bytes);
#ifdef __linux__
  if (memory && alignment == kLargePage) madvise(memory, bytes, MADV_HUGEPAGE);  // a wish: may be refused
#endif
  return memory;
}

}  // namespace

BlockPool::~BlockPool() { free_kept_above(0); }

BlockPool::Block BlockPool::take(size_t bytes) {
  const size_t alignment = alignment_for(bytes);
  const size_t size = std::max(rounded_up(bytes, alignment), alignment);
  if (size < kPooled) return {allocate(size, alignment), size};
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.lower_bound(size);
  if (found != blocks_.end() && found->first - size <= size / 8) {
    const Block block{found->second, found->first};
    blocks_.erase(found);
    kept_ -= block.bytes;
    in_use_ += block.bytes;
    ASAN_UNPOISON_MEMORY_REGION(block.memory, block.bytes);
    return block;
  }
  const size_t used = in_use_ + size;
  free_kept_above(most_in_use_ > used ? most_in_use_ - used : 0);
  void* memory = allocate(size, alignment);
  if (!memory && kept_ > 0) {
    free_kept_above(0);
    memory = allocate(size, alignment);
  }
  if (memory) {
    in_use_ = used;
    most_in_use_ = std::max(most_in_use_, used);
  }
  return {memory, size};
}

void BlockPool::give_back(Block block) {
  if (block.bytes < kPooled) return std::free(block.memory);
  const std::lock_guard lock(mutex_);
  in_use_ -= block.bytes;
  try {
    blocks_.emplace(block.bytes, block.memory);
  } catch (const std::bad_alloc&) {
    return std::free(block.memory);
  }
  kept_ += block.bytes;
  ASAN_POISON_MEMORY_REGION(block.memory, block.bytes);  // reading a freed tensor shows all the same
}

/// The largest first: what the next layer asks for is rarely among those that nothing fitted.
void BlockPool::free_kept_above(size_t bytes) {
  while (kept_ > bytes) {
    const auto last = std::prev(blocks_.end());
    ASAN_UNPOISON_MEMORY_REGION(last->second, last->first);
    std::free(last->second);
    kept_ -= last->first;
    blocks_.erase(last);
  }
}

BlockPool& block_pool() {
  static BlockPool& pool = *new BlockPool;
  return pool;
}

}  // namespace kvcal
