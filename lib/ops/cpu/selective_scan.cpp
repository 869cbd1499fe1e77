// Selective scan (Mamba-1), token after token: a channel depends on nothing but itself, and its states are neighbours
// in memory. So a result depends neither on the chunk of the sequence nor on what else is in the batch.
#include <vector>

#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/math.h"

namespace kvcal::cpu {
namespace {

constexpr int64_t kChannels = 32;  // of a task

struct ScanTask {
  const SsmInputs& in;
  const SsmWeights& w;
  int64_t first, last;  // channels

  template <class T>
  void run(const Span& span, float* kept, const Tensor& y) const {
    if (span.n_tokens == 0) return;  // done before others of the batch
    const int64_t channels = in.x.dim(1), n_state = in.b.dim(1), room = (n_state + kLanes - 1) / kLanes * kLanes;
    std::vector<float> state(static_cast<size_t>((last - first) * room)), decay(state.size());
    const auto row = [&](std::vector<float>& v, int64_t d) { return v.data() + (d - first) * room; };
    for (int64_t d = first; d < last; ++d)
      for (int64_t n = 0; n < n_state; n += kLanes) {
        const int64_t left = n_state - n;
        store8(row(decay, d) + n, 0.0f - exp(load(w.a_log.as<float>() + d * n_state + n, left)));
        if (kept) store8(row(state, d) + n, load(kept + d * n_state + n, left));
      }
    for (int64_t t = span.row; t < span.row + span.n_tokens; ++t)
      for (int64_t d = first; d < last; ++d) {
        const float x = load(in.x.as<T>() + t * channels + d, 1)[0];
        const float shifted = load(in.dt.as<T>() + t * channels + d, 1)[0] + w.dt_bias.as<float>()[d];
        const auto step = static_cast<float>(softplus(double{shifted}));
        F32x8 sums{};
        for (int64_t n = 0; n < n_state; n += kLanes) {
          const int64_t left = n_state - n;
          float* s = row(state, d) + n;
          const F32x8 next =
              exp(load8(row(decay, d) + n) * step) * load8(s) + load(in.b.as<T>() + t * n_state + n, left) * (step * x);
          store8(s, next);
          sums += next * load(in.c.as<T>() + t * n_state + n, left);  // zeros beyond the last state
        }
        const float out = sum(sums) + w.d.as<float>()[d] * x;
        store(y.as<T>() + t * channels + d, splat(out), 1);
      }
    if (!kept) return;
    for (int64_t d = first; d < last; ++d)
      for (int64_t n = 0; n < n_state; n += kLanes)
        store(kept + d * n_state + n, load8(row(state, d) + n), n_state - n);
  }
};

}  // namespace

Tensor CpuBackend::do_selective_scan(const SsmInputs& in, const SsmWeights& w, std::span<const Span> spans,
                                     std::span<SsmState* const> states) {
  const int64_t channels = in.x.dim(1), n_state = in.b.dim(1), blocks = (channels + kChannels - 1) / kChannels;
  const Tensor y = activation(in.x.shape);
  for (size_t i = 0; i < spans.size(); ++i)
    if (states[i] && !states[i]->s) states[i]->s = allocate({channels, n_state}, DType::F32);
  advance_and_store(spans, states, [&](std::span<const Span> stretch) {
    visit_activation(in.x.dtype, [&](auto tag) {
      parallel(static_cast<int64_t>(stretch.size()) * blocks, [&](int64_t i, Arena&) {
        const auto s = static_cast<size_t>(i / blocks);
        const int64_t first = i % blocks * kChannels;
        const ScanTask task{in, w, first, std::min(channels, first + kChannels)};
        task.run<decltype(tag)>(stretch[s], states[s] ? states[s]->s.view.template as<float>() : nullptr, y);
      });
    });
  });
  return y;
}

}  // namespace kvcal::cpu
