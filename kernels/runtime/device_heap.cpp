#include "kernels/runtime/device_heap.h"

#include <algorithm>
#include <iterator>

#include "kernels/runtime/memory.h"

namespace kvcal::cuda {

DeviceHeap::DeviceHeap(size_t bytes) : state_(std::make_shared<State>()) {
  state_->memory = allocate_bytes(bytes);
  state_->size = bytes;
  if (bytes > 0) state_->free[0] = bytes;
}

std::shared_ptr<void> DeviceHeap::allocate(size_t bytes, End end) {
  const size_t size = padded_bytes(bytes);
  auto& free = state_->free;
  const auto fits = [&](const auto& hole) { return hole.second >= size; };
  auto hole = free.end();
  if (end == End::Low) {
    hole = std::find_if(free.begin(), free.end(), fits);
  } else if (const auto last = std::find_if(free.rbegin(), free.rend(), fits); last != free.rend()) {
    hole = std::prev(last.base());
  }
  if (hole == free.end()) return nullptr;

  const auto [begin, room] = *hole;
  free.erase(hole);
  const size_t offset = end == End::Low ? begin : (begin + room - size) / kAlignment * kAlignment;
  if (offset > begin) free[begin] = offset - begin;
  if (begin + room > offset + size) free[offset + size] = begin + room - (offset + size);
  state_->in_use += size;
  state_->peak = std::max(state_->peak, state_->in_use);
  return {static_cast<char*>(state_->memory.get()) + offset,
          [state = state_, offset, size](void*) { state->give_back(offset, size); }};
}

void DeviceHeap::State::give_back(size_t offset, size_t bytes) {
  in_use -= bytes;
  auto next = free.lower_bound(offset);
  if (next != free.end() && offset + bytes == next->first) {
    bytes += next->second;
    next = free.erase(next);
  }
  if (next != free.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  free[offset] = bytes;
}

}  // namespace kvcal::cuda
