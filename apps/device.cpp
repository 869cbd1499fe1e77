#include "device.h"

#include "base/error.h"
#include "build_info.h"
#include "ops/cpu/cpu_ops.h"

namespace kvcal {
namespace {

bool names_cuda(const std::string& name) {
  if (name == "cuda") return true;
  return name.starts_with("cuda:") && name.size() > 5 && name.find_first_not_of("0123456789", 5) == std::string::npos;
}

Backend cpu_backend() {
  try {
    const std::string isa = make_cpu_ops({.precision = Precision::BF16, .threads = 1})->isa();
    return {.name = "cpu", .built = true, .found = true, .note = isa + "; " + build_info().libraries};
  } catch (const Error& error) {  // the processor is too old
    return {.name = "cpu", .built = true, .found = false, .note = error.what()};
  }
}

}  // namespace

void check_threads(int threads) {
  constexpr int kMost = 4096;  // more than any machine has; a typing error beyond
  if (threads < 0 || threads > kMost)
    fail("--threads is " + std::to_string(threads) + ", expected 1 to " + std::to_string(kMost) +
         ", or 0 for all processors");
}

std::unique_ptr<Ops> open_device(const std::string& name, Precision precision, int threads) {
  check_threads(threads);
  if (name == "cpu" || name == "auto") return make_cpu_ops({.precision = precision, .threads = threads});
  if (names_cuda(name))
    fail("device " + quoted(name) + ": this program was built without CUDA; use 'cpu', or build the preset 'cuda'");
  const std::string known[] = {"auto", "cpu", "cuda", "cuda:N"};
  fail_unknown("device", name, known);
}

std::vector<Backend> backends() {
  return {cpu_backend(), {.name = "cuda", .built = false, .found = false, .note = ""}};
}

}  // namespace kvcal
