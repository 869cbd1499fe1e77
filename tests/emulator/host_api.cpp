// CUDA's host functions over host memory.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <set>
#include <vector>

#include "emulator/devices.h"
#include "emulator/emulator.h"
#include "emulator/memory.h"
#include "include/cuda_runtime.h"

namespace {

constexpr int kRuntime = 13000;  // CUDA 13.0
std::atomic<cudaError_t> last_error = cudaSuccess;

std::mutex spinning_mutex;
std::set<cudaEvent_t> spinning;  // events for which a waiting thread does not sleep
std::set<int> sleeping;          // devices for whose streams it does
std::atomic<int64_t> n_spinning_waits;
std::atomic<int64_t> n_second_launches;  // on the second device

/// What is wrong with the device: programs under test are told by their environment.
bool device_is(const char* state) {
  const char* told = std::getenv("KVCAL_EMULATED_DEVICE");
  return told && std::strcmp(told, state) == 0;
}

size_t shared_bytes_of_a_block() {
  return device_is("small") ? emulator::kSmallSharedBytes : emulator::kMostSharedBytes;
}

/// A stream's device takes copies into and out of its own memory.
bool is_of(cudaStream_t stream, const void* memory, size_t bytes) {
  return emulator::is_device(memory, bytes) && emulator::device_of(memory) == emulator::owner_of(stream);
}

struct ErrorText {
  cudaError_t error;
  const char *name, *text;
};
constexpr ErrorText kErrors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice",
     "no kernel image is available for execution on the device"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
};

}  // namespace

const char* cudaGetErrorName(cudaError_t error) {
  for (const ErrorText& e : kErrors)
    if (e.error == error) return e.name;
  return "unknown";
}

const char* cudaGetErrorString(cudaError_t error) {
  for (const ErrorText& e : kErrors)
    if (e.error == error) return e.text;
  return "unknown error";
}

cudaError_t cudaGetLastError() { return last_error.exchange(cudaSuccess); }

// ---------------------------------------------------------------- devices

cudaError_t cudaDriverGetVersion(int* version) {
  *version = device_is("with old driver") ? 12020 : kRuntime;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = kRuntime;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* n) {
  *n = emulator::n_devices();
  if (device_is("with old driver")) return cudaErrorInsufficientDriver;
  return device_is("hidden") ? cudaErrorNoDevice : cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = emulator::current_device();
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) { return emulator::use_device(device) ? cudaSuccess : cudaErrorInvalidDevice; }

cudaError_t cudaSetDeviceFlags(unsigned flags) {
  const std::lock_guard lock(spinning_mutex);
  if (flags & cudaDeviceScheduleBlockingSync)
    sleeping.insert(emulator::current_device());
  else
    sleeping.erase(emulator::current_device());
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= emulator::n_devices()) return cudaErrorInvalidDevice;
  const int usual = device_is("mixed") && device > 0 ? 8 : 9;
  *properties = {"emulated GPU", device_is("old") ? 7 : usual, 0, shared_bytes_of_a_block(), 2};
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (attribute != cudaDevAttrIntegrated || device < 0 || device >= emulator::n_devices()) return cudaErrorInvalidValue;
  *value = device_is("integrated");
  return cudaSuccess;
}

// Of an integrated one nearly none: what the system keeps of files is not free to CUDA.
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *total = emulator::device_memory();
  *free = *total - std::min(*total, emulator::device_bytes_in_use());
  if (device_is("full") || device_is("integrated")) *free = size_t{1} << 20;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  emulator::synchronize_all();
  return cudaSuccess;
}

// ---------------------------------------------------------------- streams and events

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  *stream = emulator::new_stream();
  emulator::own(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) { return cudaStreamCreate(stream); }

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  emulator::disown(stream);
  emulator::destroy(stream);
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  {
    const std::lock_guard lock(spinning_mutex);
    if (!sleeping.contains(emulator::current_device())) ++n_spinning_waits;
  }
  emulator::synchronize(stream);
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  emulator::wait(stream, event);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = emulator::new_event();
  emulator::own(*event);
  const std::lock_guard lock(spinning_mutex);
  if (flags == cudaEventDisableTiming) spinning.insert(*event);
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  {
    const std::lock_guard lock(spinning_mutex);
    spinning.erase(event);
  }
  emulator::disown(event);
  emulator::destroy(event);
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (emulator::owner_of(event) != emulator::owner_of(stream)) return cudaErrorInvalidResourceHandle;
  emulator::record(event, stream);
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  {
    const std::lock_guard lock(spinning_mutex);
    if (spinning.contains(event)) ++n_spinning_waits;
  }
  emulator::synchronize(event);
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  if (!emulator::is_done(from) || !emulator::is_done(to)) return cudaErrorNotReady;
  if (emulator::time_of(from) < 0.0 || emulator::time_of(to) < 0.0) return cudaErrorInvalidValue;  // never recorded
  *milliseconds = static_cast<float>(emulator::time_of(to) - emulator::time_of(from));
  return cudaSuccess;
}

// ---------------------------------------------------------------- memory

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  if (device_is("full") && bytes > size_t{1} << 20) return cudaErrorMemoryAllocation;
  *pointer = emulator::allocate_device(bytes);
  return *pointer ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFree(void* pointer) {
  emulator::synchronize_all();  // as the real one does
  return !pointer || emulator::free_device(pointer) ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned) {
  *pointer = emulator::allocate_pinned(bytes);
  return *pointer ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFreeHost(void* pointer) {
  emulator::synchronize_all();
  return !pointer || emulator::free_pinned(pointer) ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  if (!is_of(stream, to, bytes)) return cudaErrorInvalidValue;
  emulator::enqueue(stream, [=] { std::memset(to, value, bytes); });
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  if (kind != cudaMemcpyDeviceToHost && !is_of(stream, to, bytes)) return cudaErrorInvalidValue;
  if (kind != cudaMemcpyHostToDevice && !is_of(stream, from, bytes)) return cudaErrorInvalidValue;
  if (kind == cudaMemcpyHostToDevice && !emulator::is_pinned(from, bytes)) {
    // Pageable memory has been read when the call returns.
    const auto* const begin = static_cast<const char*>(from);
    emulator::enqueue(stream, [to, staged = std::vector<char>(begin, begin + bytes)] {
      std::memcpy(to, staged.data(), staged.size());
    });
    return cudaSuccess;
  }
  emulator::enqueue(stream, [=] { std::memcpy(to, from, bytes); });
  // Pageable memory has been written when the call returns.
  if (kind == cudaMemcpyDeviceToHost && !emulator::is_pinned(to, bytes)) emulator::synchronize(stream);
  return cudaSuccess;
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  if (width > to_pitch || width > from_pitch || kind != cudaMemcpyDeviceToDevice) return cudaErrorInvalidValue;
  if (width == 0 || height == 0) return cudaSuccess;
  if (!is_of(stream, to, (height - 1) * to_pitch + width) || !is_of(stream, from, (height - 1) * from_pitch + width))
    return cudaErrorInvalidValue;
  emulator::enqueue(stream, [=] {
    for (size_t r = 0; r < height; ++r)
      std::memcpy(static_cast<char*>(to) + r * to_pitch, static_cast<const char*>(from) + r * from_pitch, width);
  });
  return cudaSuccess;
}

namespace emulator {

bool has_body(const std::string& kernel) {
  return kernel.find("warpgroups") == std::string::npos || (!device_is("small") && !kernel_runner());
}

int64_t spinning_waits() { return n_spinning_waits; }

void leave_error(cudaError_t error) { last_error = error; }

bool may_read(cudaStream_t stream, const void* address) {
  const int device = device_of(address);
  return device < 0 || device == owner_of(stream);
}

cudaError_t check_launch(const dim3& grid, const dim3& block, size_t shared_bytes, cudaStream_t stream) {
  constexpr int64_t kBeforeItBreaks = 30;  // it is opened by then, and runs
  if (owner_of(stream) != current_device()) return cudaErrorInvalidResourceHandle;
  if (device_is("with broken second") && current_device() == 1 && ++n_second_launches > kBeforeItBreaks)
    return cudaErrorIllegalAddress;
  const size_t threads = size_t{block.x} * block.y * block.z;
  if (device_is("of another make")) return cudaErrorNoKernelImageForDevice;
  const bool ok = threads > 0 && threads <= kMostThreads && shared_bytes <= shared_bytes_of_a_block() && grid.x > 0 &&
                  grid.x <= 0x7FFFFFFFu && grid.y > 0 && grid.y <= kMostGridYZ && grid.z > 0 && grid.z <= kMostGridYZ;
  return ok ? cudaSuccess : cudaErrorInvalidConfiguration;
}

}  // namespace emulator
