// Which memory the emulated host functions have handed out: the devices', with their limits, and pinned memory of the
// host.
#pragma once

#include <cstddef>

namespace emulator {

void* allocate_device(size_t bytes);             // 256-byte aligned, poisoned; null: the current device has no room
bool free_device(void* memory);                  // whether it was the device's
bool is_device(const void* from, size_t bytes);  // whether the range lies within one allocation
size_t offset_on_device(const void* at);         // from the beginning of its allocation; the address, if it is in none
int device_of(const void* address);              // which device's it is; -1: none's

/// From now on only the devices' work can touch their memory. Code of the host that does so ends with SIGSEGV, as with
/// a GPU; not always, since closing takes as long as a small kernel: the memory is closed after every 13th work.
void close_devices_to_host();

/// While one lives the devices' memory can be touched.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

void* allocate_pinned(size_t bytes);
bool free_pinned(void* memory);
bool is_pinned(const void* from, size_t bytes);

struct Allocation {
  const void* begin = nullptr;
  size_t bytes = 0;
  int device = -1;  // that was current when it was made
};
/// The device's or the pinned one that holds the address; of no bytes if none does.
Allocation allocation_of(const void* address);

}  // namespace emulator
