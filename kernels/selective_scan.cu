// Selective scan (Mamba-1): a thread per channel goes through the tokens of a span, its states in registers. What the
// channels share, B and C of some tokens, lies in shared memory.
#include "base/error.h"
#include "kernels/device/real.cuh"
#include "kernels/device/shared.cuh"
#include "kernels/kernels.h"
#include "kernels/runtime/launch.h"
#include "ops/visit_activation.h"

namespace kvcal::cuda {
namespace {

constexpr int kChannels = 128;  // threads of a block
constexpr int kTokens = 16;     // that are loaded together

/// softplus in f32, the whole range; beyond 20 the reference framework's is x.
__device__ float softplus_f32(float x) { return x > 20.0f ? x : log1pf(expf(x)); }

/// Block (channels, span). kStates: room for a.n_state.
template <class T, int kStates>
__global__ void selective_scan_kernel(ScanArrays a, const ScanSpan* __restrict__ spans, ScanShape s) {
  float* b = dynamic_shared<float>();
  float* c = b + kTokens * s.n_state;
  float *own_x = c + kTokens * s.n_state + threadIdx.x, *own_step = own_x + kTokens * kChannels;
  const ScanSpan span = spans[blockIdx.y];
  const int64_t channel = int64_t{blockIdx.x} * kChannels + threadIdx.x;
  const bool inside = channel < s.channels;
  const int n_state = static_cast<int>(s.n_state);
  float state[kStates], decay[kStates];
#pragma unroll
  for (int i = 0; i < kStates; ++i) {
    const bool used = inside && i < n_state;
    decay[i] = used ? -expf(a.a_log[channel * n_state + i]) : 0.0f;
    state[i] = used && span.state ? span.state[channel * n_state + i] : 0.0f;
  }
  const float bias = inside ? a.dt_bias[channel] : 0.0f, skip = inside ? a.d[channel] : 0.0f;
  for (int64_t first = 0; first < span.n_tokens; first += kTokens) {
    const int64_t left = span.n_tokens - first;
    const int n = static_cast<int>(left < kTokens ? left : kTokens);
    __syncthreads();  // nobody reads the previous ones any more
    for (int i = static_cast<int>(threadIdx.x); i < n * n_state; i += kChannels) {
      const int64_t from = (span.row + first) * n_state + i;
      b[i] = widen(static_cast<const T*>(a.b)[from]);
      c[i] = widen(static_cast<const T*>(a.c)[from]);
    }
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {  // all loads are under way before the first is needed
      if (!inside || t >= n) continue;
      const int64_t at = (span.row + first + t) * s.channels + channel;
      own_x[t * kChannels] = widen(static_cast<const T*>(a.x)[at]);
      own_step[t * kChannels] = softplus_f32(widen(static_cast<const T*>(a.dt)[at]) + bias);
    }
    __syncthreads();
    if (!inside) continue;
    for (int t = 0; t < n; ++t) {
      const float x = own_x[t * kChannels], step = own_step[t * kChannels], scaled = step * x;
      float y = 0.0f;
#pragma unroll
      for (int i = 0; i < kStates; ++i) {
        if (i >= n_state) break;
        state[i] = expf(step * decay[i]) * state[i] + scaled * b[t * n_state + i];
        y += c[t * n_state + i] * state[i];
      }
      static_cast<T*>(a.y)[(span.row + first + t) * s.channels + channel] = narrow<T>(y + skip * x);
      if (s.stored == DType::F32) continue;
#pragma unroll
      for (int i = 0; i < kStates; ++i) state[i] = as_stored(s.stored, state[i]);
    }
  }
  if (!inside || !span.state) return;
#pragma unroll
  for (int i = 0; i < kStates; ++i)
    if (i < n_state) span.state[channel * n_state + i] = state[i];
}

}  // namespace

// ---------------------------------------------------------------- launcher

void selective_scan(DType t, const ScanArrays& arrays, const ScanSpan* spans, const ScanShape& s, cudaStream_t stream) {
  visit_activation(t, [&](auto tag) {
    const auto start = [&]<int kStates>() {
      launch(KVCAL_KERNEL(selective_scan_kernel<decltype(tag), kStates>),
             dim3(n_blocks(s.channels, kChannels), n_blocks(s.n_spans, 1)), dim3(kChannels),
             sizeof(float) * static_cast<size_t>(2 * kTokens * (s.n_state + kChannels)), stream, arrays, spans, s);
    };
    if (s.n_state <= 16)
      start.template operator()<16>();
    else
      start.template operator()<kMostScanStates>();
  });
}

}  // namespace kvcal::cuda
