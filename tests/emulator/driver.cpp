// Stands in for the NVIDIA driver: as much of it as counting devices takes.
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kNoDevice = 100;

/// KVCAL_EMULATED_DEVICE=hidden, or "error 802": what starting the driver gives.
int error_of_start() {
  const char* told = std::getenv("KVCAL_EMULATED_DEVICE");
  if (told && std::strcmp(told, "hidden") == 0) return kNoDevice;
  return told && std::strncmp(told, "error ", 6) == 0 ? std::atoi(told + 6) : 0;
}

struct ErrorName {
  int error;
  const char* name;
};
constexpr ErrorName kErrorNames[] = {{kNoDevice, "CUDA_ERROR_NO_DEVICE"},
                                     {801, "CUDA_ERROR_NOT_SUPPORTED"},
                                     {802, "CUDA_ERROR_SYSTEM_NOT_READY"},
                                     {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
                                     {999, "CUDA_ERROR_UNKNOWN"}};

}  // namespace

extern "C" int cuInit(unsigned) { return error_of_start(); }
extern "C" int cuGetErrorName(int error, const char** name) {
  for (const ErrorName& known : kErrorNames)
    if (known.error == error) {
      *name = known.name;
      return 0;
    }
  *name = nullptr;
  return 1;  // CUDA_ERROR_INVALID_VALUE
}
extern "C" int cuDeviceGetCount(int* n) {
  const char* told = std::getenv("KVCAL_EMULATED_DEVICES");
  *n = told ? std::atoi(told) : 1;
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
