// Large pieces of memory, kept for the next tensors when tensors are freed. The system clears every page that it gives
// out, and a virtual machine may have to find it first: layer after layer that costs more than reading the weights.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

namespace kvcal {

/// What is in use and what is kept are together never more than what was once in use: a run's peak is the same with the
/// pool as without it. Any number of threads may use it.
class BlockPool {
 public:
  struct Block {
    void* memory = nullptr;
    size_t bytes = 0;
  };

  BlockPool() = default;
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;
  ~BlockPool();

  /// At least `bytes`, not initialized: a kept block that is larger by an eighth at most, else a new one. Aligned to 64
  /// bytes; one that is a multiple of large pages, to them. Null when there is no memory.
  Block take(size_t bytes);
  void give_back(Block block);

  size_t in_use() const { return in_use_; }  // bytes
  size_t kept() const { return kept_; }

 private:
  void free_kept_above(size_t bytes);

  std::mutex mutex_;
  std::multimap<size_t, void*> blocks_;  // by size
  size_t in_use_ = 0, kept_ = 0, most_in_use_ = 0;
};

/// The process's own; never destroyed, since tensors may outlive whatever would destroy it.
BlockPool& block_pool();

}  // namespace kvcal
