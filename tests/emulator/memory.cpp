#include "emulator/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "emulator/devices.h"
#include "emulator/emulator.h"
#include "emulator/streams.h"

namespace emulator {
namespace {

constexpr size_t kPage = 4096;  // CUDA promises 256
constexpr size_t kHugePage = size_t{2} << 20;

size_t up(size_t bytes, size_t alignment) {
  return (std::max<size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
}

/// Whole pages, which can be closed. Large allocations in huge pages: each test poisons a workspace of 64 MiB, and
/// small pages would triple the time.
void* allocate_poisoned(size_t bytes) {
  const size_t alignment = bytes < 2 * kHugePage ? kPage : kHugePage;
  void* const memory = std::aligned_alloc(alignment, up(bytes, alignment));
  if (!memory) return nullptr;
  if (alignment == kHugePage) madvise(memory, bytes, MADV_HUGEPAGE);  // a system without them does without
  std::memset(memory, kPoison, bytes);
  return memory;
}

void protect(const Allocation& a, int rights) { mprotect(const_cast<void*>(a.begin), up(a.bytes, kPage), rights); }

/// Allocations by address.
class Book {
 public:
  void* allocate(size_t bytes) {
    void* const memory = allocate_poisoned(bytes);
    if (memory) blocks_[static_cast<const char*>(memory)] = {memory, bytes, current_device()};
    return memory;
  }
  /// What it was, or nothing.
  bool free(void* memory, Allocation* was) {
    const auto it = blocks_.find(static_cast<const char*>(memory));
    if (it == blocks_.end()) return false;
    *was = it->second;
    blocks_.erase(it);
    protect(*was, PROT_READ | PROT_WRITE);
    std::free(memory);
    return true;
  }
  bool holds(const void* from, size_t bytes) const {
    const Allocation a = at_or_before(from);
    return a.begin && distance(a, from) + bytes <= a.bytes;
  }
  void protect_all(int rights) const {
    for (const auto& [address, allocation] : blocks_) protect(allocation, rights);
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
    const auto after = blocks_.upper_bound(static_cast<const char*>(address));
    return after == blocks_.begin() ? Allocation{} : std::prev(after)->second;
  }

  std::map<const char*, Allocation> blocks_;
};

std::mutex g_mutex;
Book g_device, g_pinned;
int g_accesses = 0;     // to the devices' memory
bool g_closes = false;  // to the host
bool g_is_open = true;  // so is it after most accesses
unsigned g_n_closing = 0;
constexpr unsigned kClosedAfter = 13;

struct Room {
  size_t limit = kUsualDeviceMemory, in_use = 0, peak = 0;
};
std::array<Room, kMostDevices> g_rooms;  // by device

Room& here() { return g_rooms[static_cast<size_t>(current_device())]; }

}  // namespace

void* allocate_device(size_t bytes) {
  const std::lock_guard lock(g_mutex);
  Room& room = here();
  if (bytes > room.limit || room.in_use > room.limit - bytes) return nullptr;
  void* const memory = g_device.allocate(bytes);
  if (!memory) return nullptr;
  if (!g_is_open) protect(g_device.find(memory), PROT_NONE);
  room.in_use += bytes;
  room.peak = std::max(room.peak, room.in_use);
  return memory;
}

bool free_device(void* memory) {
  const std::lock_guard lock(g_mutex);
  Allocation was;
  if (!g_device.free(memory, &was)) return false;
  g_rooms[static_cast<size_t>(was.device)].in_use -= was.bytes;
  return true;
}

bool is_device(const void* from, size_t bytes) {
  const std::lock_guard lock(g_mutex);
  return g_device.holds(from, bytes);
}

int device_of(const void* address) {
  const std::lock_guard lock(g_mutex);
  return g_device.find(address).device;
}

size_t offset_on_device(const void* at) {
  const std::lock_guard lock(g_mutex);
  // Of no allocation: from null, the address itself.
  return static_cast<size_t>(static_cast<const char*>(at) - static_cast<const char*>(g_device.find(at).begin));
}

void close_devices_to_host() {
  const std::lock_guard lock(g_mutex);
  g_closes = true;
}

DeviceAccess::DeviceAccess() {
  const std::lock_guard lock(g_mutex);
  ++g_accesses;
  if (!std::exchange(g_is_open, true)) g_device.protect_all(PROT_READ | PROT_WRITE);
}

DeviceAccess::~DeviceAccess() {
  const std::lock_guard lock(g_mutex);
  if (--g_accesses > 0 || !g_closes || ++g_n_closing % kClosedAfter != 0) return;
  g_is_open = false;
  g_device.protect_all(PROT_NONE);
}

void* allocate_pinned(size_t bytes) {
  const std::lock_guard lock(g_mutex);
  return g_pinned.allocate(bytes);
}

bool free_pinned(void* memory) {
  const std::lock_guard lock(g_mutex);
  Allocation was;
  return g_pinned.free(memory, &was);
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
  here().limit = bytes;
  here().peak = here().in_use;
}

size_t device_memory() { return here().limit; }
size_t device_bytes_in_use() { return here().in_use; }
size_t device_bytes_peak() { return here().peak; }

}  // namespace emulator
