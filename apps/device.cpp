#include "device.h"

#include <dlfcn.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "build_info.h"
#include "library_folders.h"
#include "ops/backend_library.h"
#include "ops/cpu/cpu_ops.h"
#include "terminal.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

constexpr char kCudaLibrary[] = "libkvcal_cuda.so", kDriver[] = "libcuda.so.1";

using Indexes = std::vector<int>;

/// "cuda" is 0, "cuda:3,1" is 3 and 1, "cuda:all" is an empty list; nothing: not a name of CUDA devices.
std::optional<Indexes> cuda_indexes(const std::string& name) {
  if (name == "cuda") return Indexes{0};
  if (name == "cuda:all") return Indexes{};
  if (!name.starts_with("cuda:")) return std::nullopt;
  Indexes indexes;
  const char *at = name.data() + 5, *const last = name.data() + name.size();
  for (;; ++at) {
    int index = -1;
    const auto [end, error] = std::from_chars(at, last, index);
    if (error != std::errc() || index < 0 || *at == '-') return std::nullopt;
    indexes.push_back(index);
    at = end;
    if (at == last) return indexes;
    if (*at != ',') return std::nullopt;
  }
}

bool names_several(const std::string& name) {
  const std::optional<Indexes> indexes = cuda_indexes(name);
  return indexes && indexes->size() != 1;
}

void refuse_repeats(Indexes indexes) {
  std::sort(indexes.begin(), indexes.end());
  const auto twice = std::adjacent_find(indexes.begin(), indexes.end());
  if (twice != indexes.end()) fail("GPU " + std::to_string(*twice) + " is there twice, expected each once");
}

// ---------------------------------------------------------------- the driver: what devices there are

template <class F>
F* find(void* library, const char* name) {
  void* symbol = dlsym(library, name);
  if (!symbol) fail(dlerror());
  return reinterpret_cast<F*>(symbol);
}

struct CudaDevices {
  int count = 0;
  std::string first;  // name of device 0
};

/// There is no GPU, or no driver for one; not that either fails.
class NoGpu : public Error {
  using Error::Error;
};

std::string likely_cause(int error) {
  if (error == 802) return "; with NVSwitch the service nvidia-fabricmanager must run";
  if (error == 803) return "; has the driver been updated since the machine started, or is the container's another?";
  if (error == 999) return "; nvidia-smi and the kernel's log may say more";
  return "";
}

/// "CUDA_ERROR_SYSTEM_NOT_READY (802)"
std::string error_text(void* driver, int error) {
  const char* name = nullptr;
  static_cast<void>(find<int(int, const char**)>(driver, "cuGetErrorName")(error, &name));
  return std::string(name ? name : "error") + " (" + std::to_string(error) + ")";
}

void require(void* driver, int error, const std::string& function) {
  if (error != 0)
    fail("the NVIDIA driver cannot start: " + function + " gives " + error_text(driver, error) + likely_cause(error));
}

/// Asks the driver alone: that costs little where there is none, while opening the library below loads cuBLASLt. Throws
/// NoGpu, or Error when the driver is there and fails.
CudaDevices cuda_devices() {
  void* const driver = dlopen(kDriver, RTLD_NOW | RTLD_LOCAL);
  if (!driver) throw NoGpu(std::string("no NVIDIA driver: ") + dlerror());
  CudaDevices found;
  constexpr int kNoDevice = 100;  // CUDA_ERROR_NO_DEVICE
  const int error = find<int(unsigned)>(driver, "cuInit")(0);
  if (error != kNoDevice) {
    require(driver, error, "cuInit");
    require(driver, find<int(int*)>(driver, "cuDeviceGetCount")(&found.count), "cuDeviceGetCount");
  }
  if (found.count == 0) throw NoGpu("the NVIDIA driver finds no GPU; does CUDA_VISIBLE_DEVICES hide it?");
  int device = 0;
  char name[256] = "";
  if (find<int(int*, int)>(driver, "cuDeviceGet")(&device, 0) == 0)
    find<int(char*, int, int)>(driver, "cuDeviceGetName")(name, sizeof name, device);
  found.first = name;
  return found;
}

// ---------------------------------------------------------------- the backend, a library of ours

/// Beside the program (a build), or where an installation has it: these two, wherever both were moved.
fs::path cuda_library(bool installed) {
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  return installed ? (folder / build_info().libraries_from_bin / kCudaLibrary).lexically_normal()
                   : folder / kCudaLibrary;
}

/// Empty when there is none.
fs::path find_cuda_library() {
  std::error_code error;
  for (const bool installed : {false, true})
    if (fs::exists(cuda_library(installed), error)) return cuda_library(installed);
  return {};
}

/// "libcublasLt.so.13" of "libcublasLt.so.13: cannot open shared object file: ..."; empty: another error.
std::string missing_library(const std::string& error) {
  const size_t end = error.find(": cannot open shared object file");
  return end == std::string::npos || error.find('/') < end ? "" : error.substr(0, end);
}

/// Once it is open, whoever needs a library of this name gets it. False where no folder has it; throws Error where
/// those that have it cannot be opened.
bool open_from(const std::vector<fs::path>& folders, const std::string& name) {
  std::string broken;
  for (const fs::path& folder : folders) {
    if (dlopen((folder / name).c_str(), RTLD_NOW | RTLD_LOCAL)) return true;
    const std::string why = dlerror();
    std::error_code error;
    if (broken.empty() && fs::exists(folder / name, error)) broken = why;
  }
  if (!broken.empty()) fail(name + " is there and cannot be opened: " + broken);
  return false;
}

void* open_with_needed(const fs::path& file, const std::vector<fs::path>& folders) {
  for (std::string last;;) {
    if (void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    const std::string error = dlerror(), missing = missing_library(error);
    if (missing.empty()) fail(error);
    if (missing == last || !open_from(folders, missing))
      fail(error + "; neither do the packages of python3 have it: install the CUDA toolkit, or by pip nvidia-cublas" +
           (missing.ends_with(".so.12") ? "-cu12" : ""));
    last = missing;
  }
}

std::vector<std::unique_ptr<Ops>> open_cuda(const fs::path& file, Precision precision, const Indexes& indexes) {
  const std::vector<fs::path> folders = library_folders();
  const BackendLibrary& library = *while_doing("opening " + quoted(file.string()), [&] {
    return find<decltype(kvcal_cuda_backend)>(open_with_needed(file, folders), "kvcal_cuda_backend")();
  });
  const std::string interface = backend_interface(), other = library.interface;
  if (other != interface)
    fail(quoted(file.string()) + " is from another build: its interface is " + quoted(other) +
         ", that of this program is " + quoted(interface) + "; build both from the same sources");
  return library.open(precision, indexes, folders);
}

/// An empty list: all there are.
Devices open_named_cuda(Precision precision, Indexes indexes) {
  refuse_repeats(indexes);
  const fs::path file = find_cuda_library();
  if (file.empty())
    fail("this program was built without CUDA, or its library is missing: found neither " +
         quoted(cuda_library(false).string()) + " nor " + quoted(cuda_library(true).string()) +
         "; use 'cpu', or build the preset 'cuda'");
  const CudaDevices devices = cuda_devices();
  if (indexes.empty()) {
    indexes.resize(static_cast<size_t>(devices.count));
    std::iota(indexes.begin(), indexes.end(), 0);
  }
  if (*std::max_element(indexes.begin(), indexes.end()) >= devices.count)
    fail("there " + std::string(devices.count == 1 ? "is 1 GPU" : "are " + std::to_string(devices.count) + " GPUs") +
         ", numbered from 0; CUDA_VISIBLE_DEVICES changes which are visible");
  std::vector<std::unique_ptr<Ops>> opened = open_cuda(file, precision, indexes);
  if (opened.size() == 1) return std::move(opened.front());
  std::vector<Devices::Named> named;
  for (size_t i = 0; i < opened.size(); ++i)
    named.push_back({"cuda:" + std::to_string(indexes[i]), std::move(opened[i])});
  return Devices(std::move(named));
}

/// Null where there is no GPU, or nothing was built for it. One that is there and cannot be used is worth a warning.
std::unique_ptr<Ops> open_first_cuda(Precision precision) {
  const fs::path file = find_cuda_library();
  if (file.empty()) return nullptr;
  try {
    cuda_devices();
    return std::move(open_cuda(file, precision, {0}).front());
  } catch (const NoGpu&) {
    return nullptr;
  } catch (const Error& error) {
    say("kvcal: warning: using the CPU instead of a GPU: ", error.what());
    return nullptr;
  }
}

Backend cpu_backend() {
  try {
    const std::string isa = make_cpu_ops({.precision = Precision::BF16, .threads = 1})->isa();
    return {.name = "cpu", .built = true, .found = true, .note = isa + "; " + build_info().libraries};
  } catch (const Error& error) {  // the processor is too old
    return {.name = "cpu", .built = true, .found = false, .note = error.what()};
  }
}

Backend cuda_backend() {
  if (find_cuda_library().empty()) return {.name = "cuda", .built = false, .found = false, .note = ""};
  try {
    const CudaDevices devices = cuda_devices();
    const std::string others = devices.count == 1 ? "" : " and " + std::to_string(devices.count - 1) + " more";
    return {.name = "cuda", .built = true, .found = true, .note = devices.first + others};
  } catch (const Error& error) {
    return {.name = "cuda", .built = true, .found = false, .note = error.what()};
  }
}

}  // namespace

Precision precision_named(const std::string& name) {
  if (name == "bf16") return Precision::BF16;
  if (name == "f32") return Precision::F32;
  fail_unknown("precision", name, std::vector<std::string>{"bf16", "f32"});
}

void check_threads(int threads) {
  constexpr int kMost = 4096;  // more than any machine has; a typing error beyond
  if (threads < 0 || threads > kMost)
    fail("--threads is " + std::to_string(threads) + ", expected 1 to " + std::to_string(kMost) +
         ", or 0 for all processors");
}

Devices open_devices(const std::string& name, Precision precision, int threads) {
  check_threads(threads);
  if (const std::optional<Indexes> cuda = cuda_indexes(name))
    return while_doing("device " + quoted(name), [&] { return open_named_cuda(precision, *cuda); });
  if (name != "cpu" && name != "auto") {
    const std::string known[] = {"auto", "cpu", "cuda", "cuda:N", "cuda:N,M", "cuda:all"};
    fail_unknown("device", name, known);
  }
  std::unique_ptr<Ops> op = name == "auto" ? open_first_cuda(precision) : nullptr;
  return op ? std::move(op) : make_cpu_ops({.precision = precision, .threads = threads});
}

std::unique_ptr<Ops> open_device(const std::string& name, Precision precision, int threads) {
  if (names_several(name))
    fail("device " + quoted(name) + " names several GPUs, expected one: only 'kvcal calibrate' takes more");
  return open_devices(name, precision, threads).take_only();
}

std::string first_device(const std::string& name) {
  if (!names_several(name)) return name;
  const Indexes indexes = *cuda_indexes(name);
  return "cuda:" + std::to_string(indexes.empty() ? 0 : indexes.front());
}

std::string device_of_process(const std::string& name, int64_t on_host) {
  if ((name != "auto" && name != "cuda") || find_cuda_library().empty()) return name;
  try {
    const int64_t n_gpus = cuda_devices().count;
    return n_gpus > 1 ? "cuda:" + std::to_string(on_host % n_gpus) : name;
  } catch (const Error&) {  // said where the device is opened
    return name;
  }
}

std::vector<Backend> backends() { return {cpu_backend(), cuda_backend()}; }

}  // namespace kvcal
