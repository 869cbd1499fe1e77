#include "emulator/devices.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>

namespace emulator {
namespace {

int told_by_the_environment() {
  const char* told = std::getenv("KVCAL_EMULATED_DEVICES");
  return std::clamp(told ? std::atoi(told) : 1, 1, kMostDevices);
}

int g_set = 0;  // by a test; 0: by none
thread_local int t_current = 0;

std::mutex g_mutex;
std::map<const void*, int> g_owners;

}  // namespace

int n_devices() { return g_set ? g_set : told_by_the_environment(); }
void set_devices(int n) { g_set = n; }

int current_device() { return t_current; }

bool use_device(int device) {
  if (device < 0 || device >= n_devices()) return false;
  t_current = device;
  return true;
}

void own(const void* handle) {
  const std::lock_guard lock(g_mutex);
  g_owners[handle] = t_current;
}

void disown(const void* handle) {
  const std::lock_guard lock(g_mutex);
  g_owners.erase(handle);
}

int owner_of(const void* handle) {
  if (!handle) return t_current;
  const std::lock_guard lock(g_mutex);
  const auto found = g_owners.find(handle);
  return found == g_owners.end() ? -1 : found->second;
}

}  // namespace emulator
