// Gated delta rule, and state-space duality, in chunks of 64 absolute positions (the WY form of Yang et al., "Gated
// Delta Networks", 2024), in f32.
//
// Inside a chunk, with G_i the sum of g up to row i, S the state before the chunk, and L the strictly lower part:
//
//   A_ij = β_i e^(G_i - G_j) (k_i · k_j), j < i       what row i sees of earlier corrections
//   (I + A) E = β (V - e^G (K S))                     E: the corrections e_i of the recurrence, by forward substitution
//   O = e^G (Q S) + [ (Q Kᵀ)_ij e^(G_i - G_j), j <= i ] E
//   S <- e^(G_last) S + (e^(G_last - G) K)ᵀ E
//
// State-space duality (Mamba-2; Dao & Gu 2024) is the same without corrections: E = Δ V, with Δ in the place of β, k,
// q, v called B, C, x; nothing scales q, and D v is added to the output.
//
// Decays are at most 1: a difference of sums is taken in double before the exponential, and only for j <= i, so that
// strong decay underflows to zero and nothing overflows. Solving for E directly needs neither the inverse of I + A nor
// the two products with it.
#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/math.h"
#include "ops/cpu/small_gemm.h"

namespace kvcal::cpu {
namespace {

constexpr int64_t kChunk = 64;
constexpr int64_t kChunkRow = row_stride(kChunk);
constexpr int64_t kSolveRows = 8;  // rows of E found one by one between two products

struct RecurrentHeads {
  int64_t n_key_heads, n_value_heads, dk, dv;
  float scale;     // of q
  bool corrected;  // the delta rule
};

template <class T>
struct RecurrentInput {
  const T *q, *k, *v;     // first row of the chunk: [n, n_key_heads, dk] x2, [n, n_value_heads, dv]
  const float *g, *rate;  // [n, n_value_heads]; β or Δ
  const float* skip;      // D [n_value_heads], or null
  T* out;                 // [n, n_value_heads, dv]
};

/// One value head of one sequence; its state stays in scratch from chunk to chunk.
template <class T>
class RecurrentTask {
 public:
  RecurrentTask(const RecurrentHeads& heads, int64_t value_head, Arena& scratch)
      : h_(heads), head_(value_head), key_head_(value_head / (heads.n_value_heads / heads.n_key_heads)) {
    const auto floats = [&](int64_t n) { return scratch.allocate({n}, DType::F32).template as<float>(); };
    key_row_ = row_stride(h_.dk);
    value_row_ = row_stride(h_.dv);
    state_ = floats(h_.dk * value_row_);
    q_ = floats(kChunk * key_row_);
    k_ = floats(kChunk * key_row_);
    k_by_column_ = floats(h_.dk * kChunkRow);
    corrections_ = floats(kChunk * value_row_);
    out_ = floats(kChunk * value_row_);
    a_ = floats(kChunk * kChunkRow);
    attention_ = floats(kChunk * kChunkRow);
    std::fill_n(state_, h_.dk * value_row_, 0.0f);
  }

  void load_state(const float* s) {  // [dk, dv]
    for (int64_t i = 0; i < h_.dk; ++i) std::copy_n(s + i * h_.dv, h_.dv, state_ + i * value_row_);
  }
  void store_state(float* s) const {
    for (int64_t i = 0; i < h_.dk; ++i) std::copy_n(state_ + i * value_row_, h_.dv, s + i * h_.dv);
  }

  /// n rows now; n_next rows will follow.
  void chunk(const RecurrentInput<T>& in, int64_t n, int64_t n_next) {
    load(in, n);
    for (int64_t i = n; i < n + n_next; ++i) {
      const int64_t key = (i * h_.n_key_heads + key_head_) * h_.dk;
      prefetch(in.q + key, h_.dk);
      prefetch(in.k + key, h_.dk);
      prefetch(in.v + (i * h_.n_value_heads + head_) * h_.dv, h_.dv);
    }
    const MatrixView k{k_, key_row_}, q{q_, key_row_};
    if (h_.corrected) small_gemm(n, n, h_.dk, k, k_by_column_, kChunkRow, a_, kChunkRow, false);
    small_gemm(n, n, h_.dk, q, k_by_column_, kChunkRow, attention_, kChunkRow, false);
    decay_products(n);
    if (h_.corrected) small_gemm(n, h_.dv, h_.dk, k, state_, value_row_, corrections_, value_row_, false);
    small_gemm(n, h_.dv, h_.dk, q, state_, value_row_, out_, value_row_, false);
    right_hand_side(in, n);
    if (h_.corrected) solve(n);
    small_gemm(n, h_.dv, n, {attention_, kChunkRow}, corrections_, value_row_, out_, value_row_, true);
    update_state(n);
    for (int64_t i = 0; i < n; ++i) {
      T* to = in.out + (i * h_.n_value_heads + head_) * h_.dv;
      for (int64_t c = 0; c < h_.dv; c += kLanes) store(to + c, load8(out_ + i * value_row_ + c), h_.dv - c);
    }
  }

 private:
  void load(const RecurrentInput<T>& in, int64_t n) {
    double sum = 0.0;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t row = (i * h_.n_key_heads + key_head_) * h_.dk;
      for (int64_t c = 0; c < h_.dk; c += kLanes)
        store8(q_ + i * key_row_ + c, cpu::load(in.q + row + c, h_.dk - c) * h_.scale);
      copy_wide(in.k + row, k_ + i * key_row_, h_.dk);
      sum += double{in.g[i * h_.n_value_heads + head_]};
      decay_sum_[i] = sum;
      rate_[i] = in.rate[i * h_.n_value_heads + head_];
    }
    if (n < kChunk) std::fill_n(k_by_column_, h_.dk * kChunkRow, 0.0f);
    transpose(k_, key_row_, n, h_.dk, k_by_column_, kChunkRow);
    for (int64_t i = 0; i < n; ++i) {
      from_start_[i] = exp(splat(static_cast<float>(decay_sum_[i])))[0];
      to_end_[i] = exp(splat(static_cast<float>(decay_sum_[n - 1] - decay_sum_[i])))[0];
    }
  }

  /// The two [n, n] products -> -A (strictly lower) and the decayed attention (lower); zeros above.
  void decay_products(int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      float decay[kChunk];
      for (int64_t j = 0; j < kChunk; ++j) decay[j] = j <= i ? static_cast<float>(decay_sum_[i] - decay_sum_[j]) : 0.0f;
      for (int64_t j = 0; j < kChunk; j += kLanes) store8(decay + j, exp(load8(decay + j)));
      float *a = a_ + i * kChunkRow, *attention = attention_ + i * kChunkRow;
      for (int64_t j = 0; j < n; ++j) {
        if (h_.corrected) a[j] = j < i ? -(rate_[i] * decay[j] * a[j]) : 0.0f;
        attention[j] = j <= i ? attention[j] * decay[j] : 0.0f;
      }
    }
  }

  void right_hand_side(const RecurrentInput<T>& in, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      const T* v = in.v + (i * h_.n_value_heads + head_) * h_.dv;
      float *e = corrections_ + i * value_row_, *o = out_ + i * value_row_;
      for (int64_t c = 0; c < h_.dv; c += kLanes) {
        const F32x8 value = cpu::load(v + c, h_.dv - c);
        store8(e + c, (h_.corrected ? value - load8(e + c) * from_start_[i] : value) * rate_[i]);
        F32x8 output = load8(o + c) * from_start_[i];
        if (in.skip) output += value * in.skip[head_];
        store8(o + c, output);
      }
    }
  }

  /// E from (I + A) E = R, R and E in corrections_.
  void solve(int64_t n) {
    for (int64_t i0 = 0; i0 < n; i0 += kSolveRows) {
      const int64_t rows = std::min(kSolveRows, n - i0);
      float* block = corrections_ + i0 * value_row_;
      small_gemm(rows, h_.dv, i0, {a_ + i0 * kChunkRow, kChunkRow}, corrections_, value_row_, block, value_row_, true);
      for (int64_t i = 1; i < rows; ++i)
        small_gemm(1, h_.dv, i, {a_ + (i0 + i) * kChunkRow + i0, kChunkRow}, block, value_row_, block + i * value_row_,
                   value_row_, true);
    }
  }

  void update_state(int64_t n) {
    for (int64_t i = 0; i < n; ++i)
      for (int64_t c = 0; c < h_.dk; c += kLanes)
        store8(k_ + i * key_row_ + c, load8(k_ + i * key_row_ + c) * to_end_[i]);
    const float decay = from_start_[n - 1];
    for (int64_t i = 0; i < h_.dk; ++i)
      for (int64_t c = 0; c < h_.dv; c += kLanes)
        store8(state_ + i * value_row_ + c, load8(state_ + i * value_row_ + c) * decay);
    small_gemm(h_.dk, h_.dv, n, {k_, 1, key_row_}, corrections_, value_row_, state_, value_row_, true);
  }

  const RecurrentHeads& h_;
  int64_t head_, key_head_, key_row_, value_row_;
  float* state_;                                              // [dk, value_row]
  float *q_, *k_;                                             // [kChunk, key_row]; q times dk^-1/2
  float* k_by_column_;                                        // [dk, kChunkRow]
  float *corrections_, *out_;                                 // [kChunk, value_row]
  float *a_, *attention_;                                     // [kChunk, kChunkRow]
  double decay_sum_[kChunk];                                  // G
  float from_start_[kChunk], to_end_[kChunk], rate_[kChunk];  // e^G, e^(G_last - G), β
};

/// q, k [tokens, n_key_heads, dk], v [tokens, n_value_heads, dv] -> y as v.
struct RecurrentTensors {
  const Tensor &q, &k, &v, &g, &rate;
  Tensor skip, y;
};

template <class T>
void run_span(const RecurrentHeads& heads, const RecurrentTensors& t, const Span& span, int64_t head, float* state,
              Arena& scratch) {
  if (span.n_tokens == 0) return;  // done before others of the batch
  RecurrentTask<T> task(heads, head, scratch);
  if (state) task.load_state(state);
  for (int64_t at = 0; at < span.n_tokens;) {
    const int64_t n = std::min(kChunk - (span.first_position + at) % kChunk, span.n_tokens - at);
    const int64_t row = span.row + at, key = row * heads.n_key_heads * heads.dk,
                  value = row * heads.n_value_heads * heads.dv, gate = row * heads.n_value_heads;
    task.chunk({t.q.as<T>() + key, t.k.as<T>() + key, t.v.as<T>() + value, t.g.as<float>() + gate,
                t.rate.as<float>() + gate, t.skip ? t.skip.as<float>() : nullptr, t.y.as<T>() + value},
               n, std::min(kChunk, span.n_tokens - at - n));
    at += n;
  }
  if (state) task.store_state(state);
}

}  // namespace

template <class Heads, class Tensors, class State>
void CpuBackend::recur(const Heads& heads, const Tensors& t, std::span<const Span> spans,
                       std::span<State* const> states) {
  for (size_t i = 0; i < spans.size(); ++i)
    if (states[i] && !states[i]->s) states[i]->s = allocate({heads.n_value_heads, heads.dk, heads.dv}, DType::F32);
  advance_and_store(spans, states, [&](std::span<const Span> stretch) {
    visit_activation(t.q.dtype, [&](auto tag) {
      parallel(static_cast<int64_t>(stretch.size()) * heads.n_value_heads, [&](int64_t i, Arena& scratch) {
        const int64_t head = i % heads.n_value_heads;
        const auto s = static_cast<size_t>(i / heads.n_value_heads);
        float* state = states[s] ? states[s]->s.view.template as<float>() + head * heads.dk * heads.dv : nullptr;
        run_span<decltype(tag)>(heads, t, stretch[s], head, state, scratch);
      });
    });
  });
}

Tensor CpuBackend::do_gated_delta_rule(const Tensor& q, const Tensor& k, const Tensor& v, const DeltaGates& gates,
                                       std::span<const Span> spans, std::span<DeltaState* const> states) {
  if (gates.g.shape.rank() == 3) return channel_delta_rule(q, k, v, gates, spans, states);
  const float scale = 1.0f / std::sqrt(static_cast<float>(q.dim(2)));
  const RecurrentHeads heads{q.dim(1), v.dim(1), q.dim(2), v.dim(2), scale, true};
  const RecurrentTensors tensors{q, k, v, gates.g, gates.beta, {}, activation(v.shape)};
  recur(heads, tensors, spans, states);
  return tensors.y;
}

Tensor CpuBackend::do_ssd(const SsmInputs& in, const SsmWeights& w, std::span<const Span> spans,
                          std::span<SsmState* const> states) {
  const Tensor g = temporary(in.dt.shape, DType::F32), step = temporary(in.dt.shape, DType::F32);
  const int64_t n_heads = in.dt.dim(1);
  visit_activation(in.dt.dtype, [&](auto tag) {
    using T = decltype(tag);
    for (int64_t i = 0; i < in.dt.elements(); ++i) {
      const int64_t h = i % n_heads;
      const double s = softplus(double{load(in.dt.as<T>() + i, 1)[0] + w.dt_bias.as<float>()[h]});
      step.as<float>()[i] = static_cast<float>(s);
      g.as<float>()[i] = static_cast<float>(-portable_exp(double{w.a_log.as<float>()[h]}) * s);
    }
  });
  const RecurrentHeads heads{in.b.dim(1), n_heads, in.b.dim(2), in.x.dim(2), 1.0f, false};
  const RecurrentTensors tensors{in.c, in.b, in.x, g, step, w.d, activation(in.x.shape)};
  recur(heads, tensors, spans, states);
  return tensors.y;
}

}  // namespace kvcal::cpu
