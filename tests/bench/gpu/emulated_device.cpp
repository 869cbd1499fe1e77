// The benchmarks on the emulator: a rehearsal.
#include "bench/gpu/bench.h"
#include "harness/emulated_ops.h"

namespace kvcal::bench {

std::unique_ptr<Ops> make_ops(bool) { return test::emulated_cuda_ops(Precision::BF16); }
const char* device_kind() { return "emulator"; }

}  // namespace kvcal::bench
