// Causal depthwise convolution, and its state: the last kernel - 1 inputs of the sequence.
//
// Two kernels. conv_parts_kernel: 2 to 4 taps; a thread has eight neighbouring channels, whose weights and last inputs
// stay in registers, so that every input is read once. conv_kernel: anything else, one channel a thread. Both sum taps
// in the same order.
#include "kernels/device/row.cuh"
#include "kernels/kernels.h"
#include "kernels/runtime/launch.h"
#include "ops/visit_activation.h"

namespace kvcal::cuda {
namespace {

constexpr int kThreads = 128;  // of a block: neighbours in memory
constexpr int64_t kRows = 64;  // tokens of a thread

/// Input at offset t of the span, t >= -history; zero before the sequence.
template <class T>
__device__ T input_at(const ConvSpan& span, const T* x, int64_t t, int64_t history, int64_t channels, int64_t c) {
  if (t >= 0) return x[(span.row + t) * channels + c];
  const T* before = static_cast<const T*>(span.before);
  return before ? before[(t + history) * channels + c] : narrow<T>(0.0f);
}

template <class T, int kTaps>
struct ConvPart {
  float weight[kTaps][kPack], bias[kPack], input[kTaps][kPack];

  __device__ ConvPart(const ConvFilters& filters, int64_t channel) {
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      bias[j] = filters.bias ? filters.bias[channel + j] : 0.0f;
#pragma unroll
      for (int tap = 0; tap < kTaps; ++tap) weight[tap][j] = filters.w[(channel + j) * kTaps + tap];
    }
  }

  /// Inputs of token t of the span, t >= 1 - kTaps; zeros before the sequence.
  __device__ void read(float (&v)[kPack], const ConvSpan& span, const T* x, int64_t t, int64_t channels,
                       int64_t channel) const {
    const T* before = static_cast<const T*>(span.before);
    const Part<true> part{channel, kPack};
    if (t >= 0)
      read_pack(v, x + (span.row + t) * channels, part);
    else if (before)
      read_pack(v, before + (t + kTaps - 1) * channels, part);
    else
      for (float& e : v) e = 0.0f;
  }

  /// Of a token whose inputs are in `newest`; those before it are in the places before, in a circle.
  template <bool kSilu>
  __device__ void convolve(float (&sum)[kPack], int newest) const {
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      float s = 0.0f;
#pragma unroll
      for (int tap = 0; tap < kTaps; ++tap) s = fmaf(weight[tap][j], input[(newest + 1 + tap) % kTaps][j], s);
      s += bias[j];
      sum[j] = kSilu ? silu(s) : s;
    }
  }
};

/// Block (channels, rows of a span, span).
template <class T, int kTaps, bool kSilu>
__global__ void conv_parts_kernel(const T* __restrict__ x, ConvFilters filters, T* __restrict__ y,
                                  const ConvSpan* __restrict__ spans, ConvShape s) {
  const ConvSpan span = spans[blockIdx.z];
  const int64_t c = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kPack, first = int64_t{blockIdx.y} * kRows;
  if (c >= s.channels || first >= span.n_tokens) return;
  ConvPart<T, kTaps> part(filters, c);
#pragma unroll
  for (int place = 1; place < kTaps; ++place)
    part.read(part.input[place], span, x, first - kTaps + place, s.channels, c);
  const int64_t end = first + kRows < span.n_tokens ? first + kRows : span.n_tokens;
  for (int64_t t = first; t < end; t += kTaps) {
#pragma unroll
    for (int place = 0; place < kTaps; ++place) {
      if (t + place >= end) break;
      float sum[kPack];
      part.read(part.input[place], span, x, t + place, s.channels, c);
      part.template convolve<kSilu>(sum, place);
      write_pack(sum, y + (span.row + t + place) * s.channels, Part<true>{c, kPack});
    }
  }
}

/// Block (channels, rows of a span, span).
template <class T>
__global__ void conv_kernel(const T* __restrict__ x, ConvFilters filters, T* __restrict__ y,
                            const ConvSpan* __restrict__ spans, ConvShape s) {
  const ConvSpan span = spans[blockIdx.z];
  const int64_t c = int64_t{blockIdx.x} * kThreads + threadIdx.x, history = s.kernel - 1;
  if (c >= s.channels) return;
  const int64_t first = int64_t{blockIdx.y} * kRows;
  const float bias = filters.bias ? filters.bias[c] : 0.0f;
  for (int64_t t = first; t < span.n_tokens && t < first + kRows; ++t) {
    float sum = 0.0f;
    for (int64_t j = 0; j < s.kernel; ++j)
      sum = fmaf(filters.w[c * s.kernel + j], widen(input_at(span, x, t - history + j, history, s.channels, c)), sum);
    sum += bias;
    y[(span.row + t) * s.channels + c] = narrow<T>(filters.silu ? silu(sum) : sum);
  }
}

/// Block (channels, span): the window after each span that keeps one.
template <class T>
__global__ void conv_window_kernel(const T* __restrict__ x, const ConvSpan* __restrict__ spans, ConvShape s) {
  const ConvSpan span = spans[blockIdx.y];
  const int64_t c = int64_t{blockIdx.x} * kThreads + threadIdx.x, history = s.kernel - 1;
  if (c >= s.channels || !span.next) return;
  for (int64_t j = 0; j < history; ++j)
    static_cast<T*>(span.next)[j * s.channels + c] =
        input_at(span, x, span.n_tokens - history + j, history, s.channels, c);
}

}  // namespace

// ---------------------------------------------------------------- launchers

void causal_conv(DType t, const void* x, const ConvFilters& filters, void* y, const ConvSpan* spans,
                 const ConvShape& shape, cudaStream_t stream) {
  const unsigned n_spans = n_blocks(shape.n_spans, 1), rows = n_blocks(shape.longest, kRows);
  const bool whole = whole_parts(shape.channels, x, y);
  visit_activation(t, [&]<class T>(T) {
    const auto* from = static_cast<const T*>(x);
    const auto start = [&](const auto& kernel, int64_t channels_of_thread) {
      const dim3 grid(n_blocks(shape.channels, kThreads * channels_of_thread), rows, n_spans);
      launch(kernel, grid, dim3(kThreads), 0, stream, from, filters, static_cast<T*>(y), spans, shape);
    };
    const auto start_parts = [&]<int kTaps>() {
      filters.silu ? start(KVCAL_KERNEL(conv_parts_kernel<T, kTaps, true>), kPack)
                   : start(KVCAL_KERNEL(conv_parts_kernel<T, kTaps, false>), kPack);
    };
    if (whole && shape.kernel == 4)
      start_parts.template operator()<4>();
    else if (whole && shape.kernel == 3)
      start_parts.template operator()<3>();
    else if (whole && shape.kernel == 2)
      start_parts.template operator()<2>();
    else
      start(KVCAL_KERNEL(conv_kernel<T>), 1);
    launch(KVCAL_KERNEL(conv_window_kernel<T>), dim3(n_blocks(shape.channels, kThreads), n_spans), dim3(kThreads), 0,
           stream, from, spans, shape);
  });
}

}  // namespace kvcal::cuda
