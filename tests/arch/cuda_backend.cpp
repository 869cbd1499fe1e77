#include "arch/backend.h"
#include "harness/emulated_ops.h"

namespace kvcal {

std::unique_ptr<Ops> backend(Precision precision) { return test::emulated_cuda_ops(precision); }

}  // namespace kvcal
