// What the tests of architectures test on a GPU.
#include "arch/backend.h"
#include "gpu/backend.h"

namespace kvcal {

std::unique_ptr<Ops> backend(Precision precision) { return test::gpu_ops(precision); }

}  // namespace kvcal
