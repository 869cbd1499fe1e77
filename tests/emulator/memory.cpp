#include "emulator/memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "emulator/emulator.h"
#include "emulator/streams.h"

namespace emulator {
namespace {

constexpr size_t kAlignment = 256;  // as CUDA promises

/// Allocations by address.
class Book {
 public:
  void* allocate(size_t bytes) {
    void* const memory =
        std::aligned_alloc(kAlignment, (std::max<size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment);
    if (memory) sizes_[static_cast<const char*>(memory)] = bytes;
    return memory;
  }
  /// Its size, or nothing.
  bool free(void* memory, size_t* bytes) {
    const auto it = sizes_.find(static_cast<const char*>(memory));
    if (it == sizes_.end()) return false;
    *bytes = it->second;
    sizes_.erase(it);
    std::free(memory);
    return true;
  }
  bool holds(const void* from, size_t bytes) const {
    const Allocation a = at_or_before(from);
    return a.begin && distance(a, from) + bytes <= a.bytes;
  }
  /// The one that holds the address.
  Allocation find(const void* address) const {
    const Allocation a = at_or_before(address);
    return a.begin && distance(a, address) < a.bytes ? a : Allocation{};
  }

 private:
  static size_t distance(const Allocation& a, const void* to) {
    return static_cast<size_t>(static_cast<const char*>(to) - static_cast<const char*>(a.begin));
  }
  Allocation at_or_before(const void* address) const {
    const auto after = sizes_.upper_bound(static_cast<const char*>(address));
    if (after == sizes_.begin()) return {};
    return {std::prev(after)->first, std::prev(after)->second};
  }

  std::map<const char*, size_t> sizes_;
};

std::mutex g_mutex;
Book g_device, g_pinned;
size_t g_limit = kUsualDeviceMemory, g_in_use = 0, g_peak = 0;

}  // namespace

void* allocate_device(size_t bytes) {
  const std::lock_guard lock(g_mutex);
  if (bytes > g_limit || g_in_use > g_limit - bytes) return nullptr;
  void* const memory = g_device.allocate(bytes);
  if (!memory) return nullptr;
  std::memset(memory, kPoison, bytes);
  g_in_use += bytes;
  g_peak = std::max(g_peak, g_in_use);
  return memory;
}

bool free_device(void* memory) {
  const std::lock_guard lock(g_mutex);
  size_t bytes = 0;
  if (!g_device.free(memory, &bytes)) return false;
  g_in_use -= bytes;
  return true;
}

bool is_device(const void* from, size_t bytes) {
  const std::lock_guard lock(g_mutex);
  return g_device.holds(from, bytes);
}

size_t offset_on_device(const void* at) {
  const std::lock_guard lock(g_mutex);
  // Of no allocation: from null, the address itself.
  return static_cast<size_t>(static_cast<const char*>(at) - static_cast<const char*>(g_device.find(at).begin));
}

void* allocate_pinned(size_t bytes) {
  const std::lock_guard lock(g_mutex);
  void* const memory = g_pinned.allocate(bytes);
  if (memory) std::memset(memory, kPoison, bytes);
  return memory;
}

bool free_pinned(void* memory) {
  const std::lock_guard lock(g_mutex);
  size_t bytes = 0;
  return g_pinned.free(memory, &bytes);
}

bool is_pinned(const void* from, size_t bytes) {
  const std::lock_guard lock(g_mutex);
  return g_pinned.holds(from, bytes);
}

Allocation allocation_of(const void* address) {
  const std::lock_guard lock(g_mutex);
  const Allocation a = g_device.find(address);
  return a.begin ? a : g_pinned.find(address);
}

void set_device_memory(size_t bytes) {
  const std::lock_guard lock(g_mutex);
  g_limit = bytes;
  g_peak = g_in_use;
}

size_t device_memory() { return g_limit; }
size_t device_bytes_in_use() { return g_in_use; }
size_t device_bytes_peak() { return g_peak; }

}  // namespace emulator
