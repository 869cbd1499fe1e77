// A kernel that does nothing: whether the library's kernels run on a device shows before the work begins.
#include "kernels/kernels.h"
#include "kernels/runtime/launch.h"

namespace kvcal::cuda {
namespace {

__global__ void probe_kernel() {}

}  // namespace

void probe(cudaStream_t stream) { launch(KVCAL_KERNEL(probe_kernel), dim3(1), dim3(1), 0, stream); }

}  // namespace kvcal::cuda
