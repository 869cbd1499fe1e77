#include "base/available_memory.h"

#include <algorithm>
#include <fstream>
#include <string>

namespace kvcal {

uint64_t available_memory() {
  uint64_t available = 0;
  std::ifstream meminfo("/proc/meminfo");
  for (std::string key, unit; meminfo >> key;) {
    uint64_t kib = 0;
    meminfo >> kib;
    if (key == "MemAvailable:") available = kib << 10;
    std::getline(meminfo, unit);
  }
  uint64_t limit = 0, used = 0;
  std::ifstream maximum("/sys/fs/cgroup/memory.max"), current("/sys/fs/cgroup/memory.current");
  if (maximum >> limit && current >> used && limit > used) available = std::min(available, limit - used);
  return available ? available : uint64_t{4} << 30;
}

}  // namespace kvcal
