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
  bool holds(const void* from, size_t bytes) const { return base_of(from, bytes) != nullptr; }
  /// The beginning of the allocation that holds all of it, or null.
  const char* base_of(const void* from, size_t bytes) const {
    const auto* const begin = static_cast<const char*>(from);
    const auto after = sizes_.upper_bound(begin);
    if (after == sizes_.begin()) return nullptr;
    const auto& [base, size] = *std::prev(after);
    return static_cast<size_t>(begin - base) + bytes <= size ? base : nullptr;
  }

 private:
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
  const char* const base = g_device.base_of(at, 1);
  return static_cast<size_t>(static_cast<const char*>(at) - base);  // base: null if it is in none
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

void set_device_memory(size_t bytes) {
  const std::lock_guard lock(g_mutex);
  g_limit = bytes;
  g_peak = g_in_use;
}

size_t device_memory() { return g_limit; }
size_t device_bytes_in_use() { return g_in_use; }
size_t device_bytes_peak() { return g_peak; }

}  // namespace emulator
