// Selective scan (Mamba-1): a thread per channel goes through the tokens of a span, its states in registers, or in
// shared memory where they are many. What the channels share, B and C of some tokens, lies in shared memory.
#include "base/error.h"
#include "kernels/device/real.cuh"
#include "kernels/device/shared.cuh"
#include "kernels/kernels.h"
#include "kernels/runtime/launch.h"
#include "ops/visit_activation.h"

namespace kvcal::cuda {
namespace {

constexpr int kFewStates = 16;  // that fit into registers
constexpr float kLog2E = 1.44269504f;

/// A block: a channel a thread, tokens that are loaded together.
template <bool kMany>
struct Block {
  static constexpr int kChannels = kMany ? 32 : 128, kTokens = kMany ? 8 : 16;

  static size_t shared_bytes(int64_t n_state) {
    return sizeof(float) *
           static_cast<size_t>(2 * kTokens * (n_state + kChannels) + (kMany ? 2 * n_state * kChannels : 0));
  }
};

/// A value of a channel for each of its states.
template <bool kMany>
struct OfStates {
  float values[kFewStates];
  __device__ explicit OfStates(float*) {}
  __device__ float& operator[](int i) { return values[i]; }
};
template <>
struct OfStates<true> {
  float* own;
  __device__ explicit OfStates(float* values) : own(values) {}
  __device__ float& operator[](int i) { return own[i * Block<true>::kChannels]; }
};

/// softplus in f32, the whole range; beyond 20 the reference framework's is x.
__device__ float softplus_f32(float x) { return x > 20.0f ? x : log1pf(expf(x)); }

/// Block (channels, span).
template <class T, bool kMany>
__global__ void selective_scan_kernel(ScanArrays a, const ScanSpan* __restrict__ spans, ScanShape s) {
  constexpr int kChannels = Block<kMany>::kChannels, kTokens = Block<kMany>::kTokens;
  float* b = dynamic_shared<float>();
  float* c = b + kTokens * s.n_state;
  float *own_x = c + kTokens * s.n_state + threadIdx.x, *own_step = own_x + kTokens * kChannels;
  float* own_states = own_step + kTokens * kChannels;  // kMany: [n_state, kChannels] x2
  const ScanSpan span = spans[blockIdx.y];
  const int64_t channel = int64_t{blockIdx.x} * kChannels + threadIdx.x;
  const bool inside = channel < s.channels;
  const int n_state = static_cast<int>(s.n_state);
  OfStates<kMany> state(own_states), decay(own_states + s.n_state * kChannels);
  const int most = kMany ? n_state : kFewStates;
#pragma unroll
  for (int i = 0; i < most; ++i) {
    const bool used = inside && i < n_state;
    decay[i] = used ? -kLog2E * expf(a.a_log[channel * n_state + i]) : 0.0f;
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
      for (int i = 0; i < most; ++i) {
        if (i >= n_state) break;
        state[i] = fmaf(exp2_approximate(step * decay[i]), state[i], scaled * b[t * n_state + i]);
        y = fmaf(c[t * n_state + i], state[i], y);
      }
      static_cast<T*>(a.y)[(span.row + first + t) * s.channels + channel] = narrow<T>(y + skip * x);
    }
  }
  if (!inside || !span.state) return;
#pragma unroll
  for (int i = 0; i < most; ++i)
    if (i < n_state) span.state[channel * n_state + i] = state[i];
}

}  // namespace

// ---------------------------------------------------------------- launcher

void selective_scan(DType t, const ScanArrays& arrays, const ScanSpan* spans, const ScanShape& s, cudaStream_t stream) {
  visit_activation(t, [&](auto tag) {
    const auto start = [&]<bool kMany>() {
      constexpr int kChannels = Block<kMany>::kChannels;
      launch(KVCAL_KERNEL(selective_scan_kernel<decltype(tag), kMany>),
             dim3(n_blocks(s.channels, kChannels), n_blocks(s.n_spans, 1)), dim3(kChannels),
             Block<kMany>::shared_bytes(s.n_state), stream, arrays, spans, s);
    };
    s.n_state <= kFewStates ? start.template operator()<false>() : start.template operator()<true>();
  });
}

}  // namespace kvcal::cuda
