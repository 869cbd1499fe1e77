// Stands in for the NVIDIA driver: as much of it as counting devices takes.
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kNoDevice = 100;

bool hidden() {
  const char* told = std::getenv("KVCAL_EMULATED_DEVICE");
  return told && std::strcmp(told, "hidden") == 0;
}

}  // namespace

extern "C" int cuInit(unsigned) { return hidden() ? kNoDevice : 0; }
extern "C" int cuDeviceGetCount(int* n) {
  *n = 1;
  return 0;
}
extern "C" int cuDeviceGet(int* device, int index) {
  *device = index;
  return 0;
}
extern "C" int cuDeviceGetName(char* name, int bytes, int) {
  std::snprintf(name, static_cast<size_t>(bytes), "emulated GPU");
  return 0;
}
