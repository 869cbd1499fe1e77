// Recurrent states as they are stored and read back (ops/state_format.h). A block takes the numbers that share a scale,
// and reads them twice; of types without scales a tile of rows, once.
#include "kernels/device/real.cuh"
#include "kernels/device/reduce.cuh"
#include "kernels/device/small_floats.cuh"
#include "kernels/kernels.h"
#include "kernels/runtime/launch.h"

namespace kvcal::cuda {
namespace {

constexpr int kThreads = 256;

/// mixed_bits() of the host.
__device__ uint64_t mixed(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

__device__ float stochastic_half(float x, uint64_t random) {
  const auto share = static_cast<uint32_t>(random >> 51);
  const float magnitude = fabsf(x), infinity = __uint_as_float(0x7F800000u);
  if (!(magnitude < infinity)) return x;
  if (magnitude < 0x1p-14f) {  // steps of 2^-24
    const uint32_t steps = (static_cast<uint32_t>(magnitude * 0x1p37f) + share) >> 13;
    return copysignf(static_cast<float>(steps) * 0x1p-24f, x);
  }
  const float half = __uint_as_float((__float_as_uint(magnitude) + share) & ~0x1FFFu);
  return copysignf(half < 65536.0f ? half : infinity, x);
}

__device__ float rounded(StateType type, float x, uint64_t random) {
  switch (type) {
    case StateType::F32:
      break;
    case StateType::Bf16:
      return rounded_to<bf16>(x);
    case StateType::F16:
      return rounded_to_f16(x);
    case StateType::F16Stochastic:
      return stochastic_half(x, mixed(random));
    case StateType::E4m3:
      return rounded_to_e4m3(x);
    case StateType::E5m2:
      return rounded_to_e5m2(x);
    case StateType::Int8:
      return rounded_to_int8(x);
    case StateType::Int16:
      return rounded_to_int16(x);
  }
  return x;
}

/// f(index in the state) of the numbers of a block.
template <class F>
__device__ void each_number(const StoredShape& s, F f) {
  const int64_t group = blockIdx.x, first_value = group % s.groups * s.together,
                first_head = s.whole ? 0 : group / s.groups, heads = s.whole ? s.heads : 1,
                left = s.values - first_value, values = left < s.together ? left : s.together;
  for (int64_t i = threadIdx.x; i < heads * s.keys * values; i += kThreads)
    f((first_head + i / (s.keys * values)) * s.keys * s.values + i / values % s.keys * s.key_step +
      (first_value + i % values) * s.value_step);
}

__global__ void store_states_kernel(const StoredState* __restrict__ states, StoredShape s) {
  const StoredState state = states[blockIdx.y];
  float scale = 1.0f;
  if (s.largest > 0.0f) {
    float absmax = 0.0f;
    each_number(s, [&](int64_t i) { absmax = fmaxf(absmax, fabsf(state.numbers[i])); });
    scale = row_reduce<kThreads>(absmax, Maximum()) / s.largest;
    if (!(scale > 0.0f)) scale = 1.0f;
  }
  each_number(s, [&](int64_t i) {
    state.numbers[i] = rounded(s.type, state.numbers[i] / scale, state.seed + static_cast<uint64_t>(i)) * scale;
  });
}

}  // namespace

void store_states(const StoredState* states, int64_t n, const StoredShape& s, cudaStream_t stream) {
  const int64_t blocks = s.whole ? 1 : s.heads * s.groups;
  launch(KVCAL_KERNEL(store_states_kernel), dim3(n_blocks(blocks, 1), n_blocks(n, 1)), dim3(kThreads), 0, stream,
         states, s);
}

}  // namespace kvcal::cuda
