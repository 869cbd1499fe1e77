// Causal depthwise convolution, and its state: the last kernel - 1 inputs of the sequence.
#include <algorithm>
#include <vector>

#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/math.h"

namespace kvcal::cpu {
namespace {

constexpr int64_t kBlockRows = 32;

/// The inputs that precede a span, [kernel - 1, channels], oldest first; null = zeros.
template <class T>
struct Input {
  const T* before;
  const T* x;  // [n_tokens, channels]
  int64_t history, channels;

  /// The row at offset t of the span; t >= -history. Null = zeros.
  const T* row(int64_t t) const {
    if (t >= 0) return x + t * channels;
    return before ? before + (t + history) * channels : nullptr;
  }
};

/// An input row that is not all zeros, and its weights, both [channels].
template <class T>
struct Tap {
  const T* x;
  const float* w;
};

template <class T>
void convolve_row(std::span<const Tap<T>> taps, const ConvWeights& weights, T* y) {
  const int64_t channels = weights.w.dim(0);
  for (int64_t c = 0; c < channels; c += kLanes) {
    const int64_t n = channels - c;
    F32x8 sum{};
    for (const Tap<T>& tap : taps) sum += load(tap.w + c, n) * load(tap.x + c, n);
    if (weights.bias) sum += load(weights.bias.as<float>() + c, n);
    store(y + c, weights.silu ? silu(sum) : sum, n);
  }
}

}  // namespace

Tensor CpuBackend::do_causal_conv(const Tensor& x, const ConvWeights& weights, std::span<const Span> spans,
                                  std::span<ConvState* const> states) {
  const Tensor& w = weights.w;
  const int64_t channels = x.dim(1), kernel = w.dim(1), history = kernel - 1;
  const Tensor y = activation(x.shape);
  const Tensor by_tap = temporary({kernel, channels}, DType::F32);
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t j = 0; j < kernel; ++j) by_tap.as<float>()[j * channels + c] = w.as<float>()[c * kernel + j];

  struct Block {
    size_t span;
    int64_t begin, end;
  };
  std::vector<Block> blocks;
  for (size_t s = 0; s < spans.size(); ++s)
    for (int64_t t = 0; t < spans[s].n_tokens; t += kBlockRows)
      blocks.push_back({s, t, std::min(t + kBlockRows, spans[s].n_tokens)});

  visit_activation(x.dtype, [&](auto tag) {
    using T = decltype(tag);
    const auto input = [&](size_t s) {
      const ConvState* state = states[s];
      return Input<T>{state && state->window ? state->window.view.template as<T>() : nullptr,
                      x.as<T>() + spans[s].row * channels, history, channels};
    };
    parallel(static_cast<int64_t>(blocks.size()), [&](int64_t task, Arena&) {
      const Block& b = blocks[static_cast<size_t>(task)];
      const Input<T> in = input(b.span);
      std::vector<Tap<T>> taps;
      for (int64_t t = b.begin; t < b.end; ++t) {
        taps.clear();
        for (int64_t j = 0; j < kernel; ++j)
          if (const T* row = in.row(t - history + j)) taps.push_back({row, by_tap.as<float>() + j * channels});
        convolve_row<T>(taps, weights, y.as<T>() + (spans[b.span].row + t) * channels);
      }
    });
    for (size_t s = 0; s < spans.size(); ++s) {
      if (!states[s] || spans[s].n_tokens == 0) continue;
      const Owned next = allocate({history, channels}, x.dtype);
      for (int64_t j = 0; j < history; ++j)
        if (const T* row = input(s).row(spans[s].n_tokens - history + j))
          std::copy(row, row + channels, next.view.as<T>() + j * channels);
      states[s]->window = next;
    }
  });
  return y;
}

}  // namespace kvcal::cpu
