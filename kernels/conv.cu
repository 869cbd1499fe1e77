// Causal depthwise convolution, and its state: the last kernel - 1 inputs of the sequence.
#include "kernels/device/real.cuh"
#include "kernels/kernels.h"
#include "kernels/runtime/launch.h"
#include "ops/visit_activation.h"

namespace kvcal::cuda {
namespace {

constexpr int kChannels = 128;  // threads of a block: neighbours in memory
constexpr int64_t kRows = 64;   // outputs of a thread

/// Input at offset t of the span, t >= -history; zero before the sequence.
template <class T>
__device__ T input_at(const ConvSpan& span, const T* x, int64_t t, int64_t history, int64_t channels, int64_t c) {
  if (t >= 0) return x[(span.row + t) * channels + c];
  const T* before = static_cast<const T*>(span.before);
  return before ? before[(t + history) * channels + c] : narrow<T>(0.0f);
}

/// Block (channels, rows of a span, span).
template <class T>
__global__ void causal_conv_kernel(const T* __restrict__ x, ConvFilters filters, T* __restrict__ y,
                                   const ConvSpan* __restrict__ spans, ConvShape s) {
  const ConvSpan span = spans[blockIdx.z];
  const int64_t c = int64_t{blockIdx.x} * kChannels + threadIdx.x, history = s.kernel - 1;
  if (c >= s.channels) return;
  const int64_t first = int64_t{blockIdx.y} * kRows;
  const float bias = filters.bias ? filters.bias[c] : 0.0f;
  for (int64_t t = first; t < span.n_tokens && t < first + kRows; ++t) {
    float sum = 0.0f;
    for (int64_t j = 0; j < s.kernel; ++j)
      sum += filters.w[c * s.kernel + j] * widen(input_at(span, x, t - history + j, history, s.channels, c));
    sum += bias;
    y[(span.row + t) * s.channels + c] = narrow<T>(filters.silu ? silu(sum) : sum);
  }
}

/// Block (channels, span): the window after each span that keeps one.
template <class T>
__global__ void conv_window_kernel(const T* __restrict__ x, const ConvSpan* __restrict__ spans, ConvShape s) {
  const ConvSpan span = spans[blockIdx.y];
  const int64_t c = int64_t{blockIdx.x} * kChannels + threadIdx.x, history = s.kernel - 1;
  if (c >= s.channels || !span.next) return;
  for (int64_t j = 0; j < history; ++j)
    static_cast<T*>(span.next)[j * s.channels + c] =
        input_at(span, x, span.n_tokens - history + j, history, s.channels, c);
}

}  // namespace

// ---------------------------------------------------------------- launchers

void causal_conv(DType t, const void* x, const ConvFilters& filters, void* y, const ConvSpan* spans,
                 const ConvShape& shape, cudaStream_t stream) {
  const unsigned columns = n_blocks(shape.channels, kChannels), n_spans = n_blocks(shape.n_spans, 1);
  visit_activation(t, [&](auto tag) {
    using T = decltype(tag);
    launch(KVCAL_KERNEL(causal_conv_kernel<T>), dim3(columns, n_blocks(shape.longest, kRows), n_spans), dim3(kChannels),
           0, stream, static_cast<const T*>(x), filters, static_cast<T*>(y), spans, shape);
    launch(KVCAL_KERNEL(conv_window_kernel<T>), dim3(columns, n_spans), dim3(kChannels), 0, stream,
           static_cast<const T*>(x), spans, shape);
  });
}

}  // namespace kvcal::cuda
