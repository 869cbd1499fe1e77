#include "arch/backend.h"
#include "emulator/memory.h"
#include "harness/emulated_ops.h"

namespace kvcal {

/// The same tests run on a GPU, whose memory the host cannot read.
std::unique_ptr<Ops> backend(Precision precision) {
  emulator::close_devices_to_host();
  return test::emulated_cuda_ops(precision);
}

}  // namespace kvcal
