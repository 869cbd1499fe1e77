// What lives longer than a batch, inside one piece of device memory that is taken before a run begins.
#pragma once

#include <cstddef>
#include <map>
#include <memory>

#include "kernels/runtime/handle.h"

namespace kvcal::cuda {

/// First fit from either end. Two layers whose weights come from opposite ends, each freed as a whole, leave no holes
/// that a third one could not use. Freed memory may be handed out at once: work queued on the stream that used it comes
/// before work queued later.
class DeviceHeap {
 public:
  enum class End { Low, High };

  /// Throws Error when the device has no room.
  explicit DeviceHeap(size_t bytes);

  /// 256-byte aligned; the memory outlives this object if somebody still holds it. Null: there is no room.
  std::shared_ptr<void> allocate(size_t bytes, End end);

  size_t size() const { return state_->size; }
  size_t in_use() const { return state_->in_use; }
  size_t peak() const { return state_->peak; }

 private:
  struct State {
    DeviceBytes memory;
    size_t size = 0, in_use = 0, peak = 0;
    std::map<size_t, size_t> free;  // size by offset; neighbours are joined
    void give_back(size_t offset, size_t bytes);
  };
  std::shared_ptr<State> state_;
};

}  // namespace kvcal::cuda
