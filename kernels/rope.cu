// Rotary position embedding: the table of cosines and sines per token. The rotation is in heads.cu.
#include "kernels/device/row.cuh"
#include "kernels/kernels.h"
#include "kernels/runtime/launch.h"
#include "ops/visit_activation.h"

namespace kvcal::cuda {
namespace {

constexpr int kThreads = 256;

/// The angle is an f32 product; its cosine in double, rounded once, is the correctly rounded one in practically all
/// cases, which float functions with their few ulps are not.
template <class T>
__global__ void rope_table_kernel(RopeAngles angles, T* __restrict__ table, int64_t tokens, int64_t half) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= tokens * half) return;
  const int64_t token = i / half, pair = i % half;
  const auto position = static_cast<float>(angles.positions[angles.axis[pair] * tokens + token]);
  const auto angle = static_cast<double>(position * angles.inverse_frequency[pair]);
  T* row = table + token * 2 * half;
  row[pair] = narrow<T>(static_cast<float>(cos(angle)) * angles.magnitude);
  row[half + pair] = narrow<T>(static_cast<float>(sin(angle)) * angles.magnitude);
}

}  // namespace

// ---------------------------------------------------------------- launchers

void rope_table(DType t, const RopeAngles& angles, void* table, int64_t tokens, int64_t half, cudaStream_t stream) {
  visit_activation(t, [&](auto tag) {
    using T = decltype(tag);
    launch(KVCAL_KERNEL(rope_table_kernel<T>), dim3(n_blocks(tokens * half, kThreads)), dim3(kThreads), 0, stream,
           angles, static_cast<T*>(table), tokens, half);
  });
}

}  // namespace kvcal::cuda
