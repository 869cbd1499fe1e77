// |x|² of sampled rows of the residual stream, in f64: a block for each row, which reads it once.
#include "kernels/device/real.cuh"
#include "kernels/device/shared.cuh"
#include "kernels/kernels.h"
#include "kernels/runtime/launch.h"
#include "ops/visit_activation.h"

namespace kvcal::cuda {
namespace {

constexpr int kThreads = 256;

template <class T>
__global__ void sample_stream_kernel(const SampledRow* rows, SampledStream stream) {
  KVCAL_SHARED(double, part, kThreads);
  const SampledRow row = rows[blockIdx.x];
  const T* x = static_cast<const T*>(stream.x) + row.row * stream.hidden;
  const int thread = static_cast<int>(threadIdx.x);
  double sum = 0.0;
  for (int64_t i = thread; i < stream.hidden; i += kThreads) {
    const double value = widen(x[i]);
    sum += value * value;
  }
  part[thread] = sum;
  for (int half = kThreads / 2; half > 0; half /= 2) {  // a fixed tree
    __syncthreads();
    if (thread < half) part[thread] += part[thread + half];
  }
  if (thread == 0) stream.squares[row.index] = part[0];
}

}  // namespace

void sample_stream(DType t, const SampledStream& x, const SampledRow* rows, int64_t n_rows, cudaStream_t stream) {
  visit_activation(t, [&](auto tag) {
    launch(KVCAL_KERNEL(sample_stream_kernel<decltype(tag)>), dim3(n_blocks(n_rows, 1)), dim3(kThreads), 0, stream,
           rows, x);
  });
}

}  // namespace kvcal::cuda
