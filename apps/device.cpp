#include "device.h"

#include "base/error.h"
#include "ops/cpu/cpu_ops.h"

namespace kvcal {
namespace {

bool names_cuda(const std::string& name) {
  if (name == "cuda") return true;
  return name.starts_with("cuda:") && name.size() > 5 && name.find_first_not_of("0123456789", 5) == std::string::npos;
}

std::string processor_note() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512bw")) return "x86-64, AVX-512";
  if (__builtin_cpu_supports("avx2")) return "x86-64, AVX2";
  return "x86-64, no AVX2";
#elif defined(__aarch64__)
  return "aarch64";
#else
  return "";
#endif
}

}  // namespace

std::unique_ptr<Ops> open_device(const std::string& name, Precision precision, int threads) {
  if (name == "cpu" || name == "auto") return make_cpu_ops({.precision = precision, .threads = threads});
  if (names_cuda(name))
    fail("device " + quoted(name) + ": this program was built without CUDA; use 'cpu', or build the preset 'cuda'");
  const std::string known[] = {"auto", "cpu", "cuda", "cuda:N"};
  fail_unknown("device", name, known);
}

std::vector<Backend> backends() {
  return {
      {.name = "cpu", .built = true, .found = true, .note = processor_note()},
      {.name = "cuda", .built = false, .found = false, .note = ""},
  };
}

}  // namespace kvcal
