#include "kernels/runtime/device.h"

#include <string>

#include "base/error.h"
#include "kernels/runtime/check.h"

namespace kvcal::cuda {
namespace {

constexpr int kLeastMajor = 8;  // Ampere: the first with bf16 in its tensor cores

/// "13.0" from 13000.
std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

[[noreturn]] void fail_driver() {
  int driver = 0, runtime = 0;
  static_cast<void>(cudaDriverGetVersion(&driver));
  static_cast<void>(cudaRuntimeGetVersion(&runtime));
  if (driver == 0) fail("no NVIDIA driver is installed");
  const bool older_toolkit_helps = runtime >= 13000;
  fail("the NVIDIA driver knows CUDA " + version_text(driver) + ", at least " + version_text(runtime / 1000 * 1000) +
       " is needed: install a newer driver" +
       (older_toolkit_helps
            ? " (R580 or newer), or build with CUDA toolkit 12.8, which takes drivers from R525 on (Blackwell: R570)"
            : ""));
}

}  // namespace

void use_device(int device) {
  int n_devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&n_devices);
  if (error == cudaErrorInsufficientDriver) fail_driver();
  if (error == cudaErrorNoDevice || (error == cudaSuccess && n_devices == 0))
    fail("the NVIDIA driver shows no GPU; does CUDA_VISIBLE_DEVICES hide it?");
  check(error, "counting CUDA devices");
  if (device < 0 || device >= n_devices)
    fail("there is no CUDA device " + std::to_string(device) + " among " + std::to_string(n_devices));
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, device), "asking for the properties of the device");
  if (properties.major < kLeastMajor)
    fail(std::string(properties.name) + " has compute capability " + std::to_string(properties.major) + "." +
         std::to_string(properties.minor) + ", at least " + std::to_string(kLeastMajor) + ".0 is needed");
  check(cudaSetDevice(device), "opening CUDA device " + std::to_string(device));
  // A run waits for the device once a layer, for as long as the layer takes: other threads have use for the processor.
  check(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync), "letting threads sleep that wait for the device");
}

bool is_integrated() {
  int device = 0, integrated = 0;
  check(cudaGetDevice(&device), "asking for the current device");
  check(cudaDeviceGetAttribute(&integrated, cudaDevAttrIntegrated, device), "asking whose memory the device has");
  return integrated != 0;
}

}  // namespace kvcal::cuda
