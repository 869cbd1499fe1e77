// The benchmarks on the GPU of this machine.
#include "bench/gpu/bench.h"
#include "kernels/cuda_ops.h"
#include "kernels/cudnn/cudnn_attention.h"

namespace kvcal::bench {

std::unique_ptr<Ops> make_ops(bool own_attention) {
  return make_cuda_ops({.precision = Precision::BF16}, own_attention ? nullptr : cuda::make_cudnn_attention());
}
const char* device_kind() { return "device"; }

}  // namespace kvcal::bench
