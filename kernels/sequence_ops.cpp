// The ops that look beyond a row: along a sequence, with the state it keeps.
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "kernels/cuda_backend.h"
#include "kernels/kernels.h"
#include "ops/state_stretches.h"

namespace kvcal::cuda {
namespace {

int64_t longest(std::span<const Span> spans) {
  int64_t n = 0;
  for (const Span& s : spans) n = std::max(n, s.n_tokens);
  return n;
}

/// Tokens whose keys are ranked together: so few that the ranks take no more than what is picked by all.
constexpr int64_t kLeastSlice = 16, kSlices = 8 * kPickBits / 16;

bool looks_ahead(const Span& s, std::span<const int32_t> last_keys) {
  bool ahead = s.looks_ahead;
  for (int64_t t = 0; t < s.n_tokens && !last_keys.empty() && !ahead; ++t)
    ahead = last_keys[static_cast<size_t>(s.row + t)] > s.first_position + t;
  return ahead;
}

bool picks(const AttentionSpec& spec, size_t span) {
  return spec.picked && (spec.picks.empty() || spec.picks[span] != 0);
}

}  // namespace

// ---------------------------------------------------------------- attention

/// Room for n more rows; capacity doubles when the first guess was too small.
void CudaBackend::reserve(KvRows& rows, int64_t n, const Tensor& k, const Tensor& v) {
  const int64_t needed = rows.n_tokens + n, capacity = rows.key ? rows.key.view.dim(0) : 0;
  if (needed <= capacity) return;
  const int64_t grown = capacity == 0 ? std::max(rows.max_tokens, needed) : std::max(2 * capacity, needed);
  const auto grow = [&](Owned& old, const Tensor& like) {
    const Owned fresh = allocate(with_first(like.shape, grown), like.dtype);
    if (old) copy(fresh.view.data, old.view.data, old.view.rows(0, rows.n_tokens).bytes(), cudaMemcpyDeviceToDevice);
    old = fresh;  // freeing waits for the device, so the copy has been made
  };
  grow(rows.key, k);
  if (v) grow(rows.value, v);
}

void CudaBackend::append(KvRows& rows, const Span& span, const Tensor& k, const Tensor& v) {
  reserve(rows, span.n_tokens, k, v);
  const auto add_rows = [&](const Owned& to, const Tensor& from) {
    const Tensor source = from.rows(span.row, span.n_tokens);
    copy(to.view.rows(rows.n_tokens, span.n_tokens).data, data_of(source), source.bytes(), cudaMemcpyDeviceToDevice);
  };
  add_rows(rows.key, k);
  if (v) add_rows(rows.value, v);
  rows.n_tokens += span.n_tokens;
}

Tensor CudaBackend::do_attention(const Tensor& q, const Tensor& k, const Tensor& v, std::span<const Span> spans,
                                 std::span<KvRows* const> rows, const AttentionSpec& spec) {
  std::vector<AttentionSpan> device_spans;
  for (size_t i = 0; i < spans.size(); ++i) {
    const Span& s = spans[i];
    if (rows[i]) append(*rows[i], s, k, v);
    if (s.n_tokens == 0) continue;
    const bool kept = rows[i] != nullptr;
    device_spans.push_back({s.row, s.n_tokens, s.first_position,
                            data_of(kept ? rows[i]->key.view : k.rows(s.row, s.n_tokens)),
                            data_of(kept ? rows[i]->value.view : v.rows(s.row, s.n_tokens)),
                            looks_ahead(s, spec.last_keys), picks(spec, i)});
  }
  return attend({q, k, v, activation({q.dim(0), q.dim(1) * v.dim(2)})}, device_spans, spec, false);
}

Tensor CudaBackend::do_attend_kept(const Tensor& q, std::span<const Span> spans, std::span<const KvRows* const> rows,
                                   const AttentionSpec& spec) {
  if (rows.empty()) return activation({q.dim(0), 0});
  std::vector<AttentionSpan> device_spans;
  for (size_t i = 0; i < spans.size(); ++i)
    if (spans[i].n_tokens > 0)
      device_spans.push_back({spans[i].row, spans[i].n_tokens, spans[i].first_position, data_of(rows[i]->key.view),
                              data_of(rows[i]->value.view), looks_ahead(spans[i], spec.last_keys), picks(spec, i)});
  const Tensor &k = rows[0]->key.view, &v = rows[0]->value.view;
  return attend({q, k, v, activation({q.dim(0), q.dim(1) * v.dim(2)})}, device_spans, spec, true);
}

Owned CudaBackend::do_pick_keys(const Tensor& q, const Tensor& weights, const Tensor& k, std::span<const Span> spans,
                                std::span<const KvRows* const> kept, const PickSpec& spec) {
  PickShape shape{};
  shape.heads = q.dim(1);
  shape.dim = q.dim(2);
  shape.pickers = weights ? 1 : q.dim(1);
  shape.n_picked = spec.n_picked;
  shape.block = spec.block;
  shape.n_local = spec.n_local;
  int64_t last = 0;  // behind the last position
  for (const Span& s : spans) last = std::max(last, s.first_position + s.n_tokens);
  shape.words = (last + kPickBits - 1) / kPickBits;
  shape.row_ranks = shape.words * kPickBits;
  shape.row_blocks = spec.block > 1 ? (last + spec.block - 1) / spec.block : 0;
  const int64_t n_tokens = q.dim(0);
  const Owned picked = uninitialised({n_tokens, shape.pickers, shape.words}, DType::I64);
  const int64_t slice = std::min(n_tokens, std::max(kLeastSlice, n_tokens / kSlices));
  const auto scratch = [&](int64_t of_row) {
    return data_as<uint32_t>(temporary({slice, shape.pickers, of_row}, DType::I32));
  };
  uint32_t *const ranks = scratch(shape.row_ranks), *const blocks = scratch(shape.row_blocks);
  for (shape.first_row = 0; shape.first_row < n_tokens; shape.first_row += slice) {
    std::vector<PickSpan> parts;
    shape.longest = 0;
    for (size_t i = 0; i < spans.size(); ++i) {
      const Span& s = spans[i];
      const int64_t first = std::max(s.row, shape.first_row),
                    end = std::min(s.row + s.n_tokens, shape.first_row + slice);
      if (first >= end) continue;
      parts.push_back({first, end - first, s.first_position + first - s.row,
                       data_of(kept[i] ? kept[i]->key.view : k.rows(s.row, s.n_tokens))});
      shape.longest = std::max(shape.longest, end - first);
    }
    shape.n_spans = static_cast<int64_t>(parts.size());
    const PickSpan* on_device = device_copy(parts);
    rank_keys(q.dtype, data_of(q), weights ? data_of(weights) : nullptr, on_device, ranks, shape, stream_.get());
    cuda::pick_keys(ranks, blocks, on_device, data_as<uint64_t>(picked.view), shape, stream_.get());
  }
  return picked;
}

void CudaBackend::do_keep_rows(const Tensor& k, const Tensor& v, std::span<const Span> spans,
                               std::span<KvRows* const> rows) {
  for (size_t i = 0; i < spans.size(); ++i)
    if (rows[i]) append(*rows[i], spans[i], k, v);
}

Tensor CudaBackend::attend(const AttentionRows& rows, std::vector<AttentionSpan> spans, const AttentionSpec& spec,
                           bool kept) {
  if (spec.probabilities.factor > 0.0f) fail("attention on a GPU cannot round probabilities to E4M3; --device cpu can");
  AttentionShape shape{static_cast<int64_t>(spans.size()),
                       0,
                       rows.q.dim(1),
                       rows.k.dim(1),
                       rows.q.dim(2),
                       rows.v.dim(2),
                       spec.window,
                       spec.scale,
                       spec.softcap,
                       spec.sinks ? data_as<float>(spec.sinks) : nullptr,
                       shared_limit_,
                       spec.chunk,
                       kept,
                       spec.last_keys.empty() ? nullptr : device_copy(spec.last_keys),
                       picked_keys(spec.picked, rows.q.dim(1))};
  for (const AttentionSpan& s : spans) shape.longest = std::max(shape.longest, s.n_tokens);
  if (spec.softcap == 0.0f && !spec.sinks && spec.chunk == 0) spans = attend_by_library(rows, std::move(spans), shape);
  shape.n_spans = static_cast<int64_t>(spans.size());
  if (shape.n_spans > 0)
    cuda::attention(rows.q.dtype, data_of(rows.q), rows.y.data, device_copy(spans), shape, stream_.get());
  return rows.y;
}

// ---------------------------------------------------------------- convolution and delta rule

Tensor CudaBackend::do_causal_conv(const Tensor& x, const ConvWeights& weights, std::span<const Span> spans,
                                   std::span<ConvState* const> states) {
  const Tensor y = activation(x.shape);
  const int64_t channels = x.dim(1), kernel = weights.w.dim(1);
  std::vector<ConvSpan> device_spans;
  std::vector<Owned> next(spans.size());
  for (size_t i = 0; i < spans.size(); ++i) {
    if (spans[i].n_tokens == 0) continue;
    const ConvState* state = states[i];
    if (state) next[i] = allocate({kernel - 1, channels}, x.dtype);
    device_spans.push_back({spans[i].row, spans[i].n_tokens,
                            state && state->window ? data_of(state->window.view) : nullptr,
                            state ? data_of(next[i].view) : nullptr});
  }
  cuda::causal_conv(x.dtype, data_of(x),
                    {data_as<float>(weights.w), weights.bias ? data_as<float>(weights.bias) : nullptr, weights.silu},
                    y.data, device_copy(device_spans),
                    {static_cast<int64_t>(device_spans.size()), longest(spans), channels, kernel}, stream_.get());
  for (size_t i = 0; i < spans.size(); ++i)
    if (next[i]) states[i]->window = next[i];
  return y;
}

template <class State>
std::vector<float*> CudaBackend::states_of(std::span<const Span> spans, std::span<State* const> states,
                                           const Shape& shape) {
  std::vector<float*> memory(spans.size());
  for (size_t i = 0; i < spans.size(); ++i) {
    if (!states[i]) continue;
    if (!states[i]->s) states[i]->s = allocate(shape, DType::F32);
    memory[i] = data_as<float>(states[i]->s.view);
  }
  return memory;
}

namespace {

StoredShape stored_shape(const Shape& state, const StateFormat& format) {
  StoredShape s{};
  const bool by_head = state.rank() == 3;  // else [value channels, key channels]
  s.heads = by_head ? state[0] : 1;
  s.keys = state[1];
  s.values = by_head ? state[2] : state[0];
  s.key_step = by_head ? s.values : 1;
  s.value_step = by_head ? 1 : s.keys;
  s.type = format.type;
  s.largest = format.has_scale() ? largest_of(format.type) : 0.0f;
  s.whole = format.has_scale() && format.scale == StateScale::Tensor;
  s.together = !format.has_scale() || format.scale == StateScale::Tile ? kStateTile
               : format.scale == StateScale::Row                       ? 1
                                                                       : s.values;
  s.groups = (s.values + s.together - 1) / s.together;
  return s;
}

}  // namespace

template <class State, class Advance>
void CudaBackend::advance_and_store(std::span<const Span> spans, std::span<State* const> states, const Shape& shape,
                                    const Advance& advance) {
  in_stretches(spans, states, advance, [&](std::span<const StoredNow> now) {
    const StateFormat format = format_of(states);
    std::vector<StoredState> stored;
    for (const StoredNow& s : now)
      stored.push_back({data_as<float>(states[s.index]->s.view), random_seed(format, s.passed)});
    store_states(device_copy(stored), static_cast<int64_t>(stored.size()), stored_shape(shape, format), stream_.get());
  });
}

namespace {

std::vector<RecurrenceSpan> recurrence_spans(std::span<const Span> spans, const std::vector<float*>& states) {
  std::vector<RecurrenceSpan> used;
  for (size_t i = 0; i < spans.size(); ++i)
    if (spans[i].n_tokens > 0) used.push_back({spans[i].row, spans[i].n_tokens, spans[i].first_position, states[i]});
  return used;
}

}  // namespace

Tensor CudaBackend::do_gated_delta_rule(const Tensor& q, const Tensor& k, const Tensor& v, const DeltaGates& gates,
                                        std::span<const Span> spans, std::span<DeltaState* const> states) {
  const Tensor y = activation(v.shape);
  const int64_t dk = q.dim(2), dv = v.dim(2);
  const Shape shape{v.dim(1), dk, dv};
  const std::vector<float*> memory = states_of(spans, states, shape);
  const float scale = 1.0f / std::sqrt(static_cast<float>(dk));
  const auto rule = gates.g.shape.rank() == 3 ? channel_delta_rule : recurrence;
  advance_and_store(spans, states, shape, [&](std::span<const Span> stretch) {
    const auto used = recurrence_spans(stretch, memory);
    rule(q.dtype,
         {data_of(q), data_of(k), data_of(v), data_as<float>(gates.g), data_as<float>(gates.beta), nullptr, y.data},
         device_copy(used), {static_cast<int64_t>(used.size()), q.dim(1), v.dim(1), dk, dv, scale, true}, shared_limit_,
         stream_.get());
  });
  return y;
}

// ---------------------------------------------------------------- state spaces

Tensor CudaBackend::do_ssd(const SsmInputs& in, const SsmWeights& w, std::span<const Span> spans,
                           std::span<SsmState* const> states) {
  const Tensor y = activation(in.x.shape), g = temporary(in.dt.shape, DType::F32),
               step = temporary(in.dt.shape, DType::F32);
  const int64_t heads = in.x.dim(1), n_state = in.b.dim(2), dim = in.x.dim(2);
  ssd_gates(in.dt.dtype, data_of(in.dt), data_as<float>(w.a_log), data_as<float>(w.dt_bias), data_as<float>(g),
            data_as<float>(step), in.dt.dim(0), heads, stream_.get());
  const Shape shape{heads, n_state, dim};
  const std::vector<float*> memory = states_of(spans, states, shape);
  const RecurrenceArrays arrays{data_of(in.c),        data_of(in.b),       data_of(in.x), data_as<float>(g),
                                data_as<float>(step), data_as<float>(w.d), y.data};
  advance_and_store(spans, states, shape, [&](std::span<const Span> stretch) {
    const auto used = recurrence_spans(stretch, memory);
    recurrence(in.x.dtype, arrays, device_copy(used),
               {static_cast<int64_t>(used.size()), in.b.dim(1), heads, n_state, dim, 1.0f, false}, shared_limit_,
               stream_.get());
  });
  return y;
}

Tensor CudaBackend::do_selective_scan(const SsmInputs& in, const SsmWeights& w, std::span<const Span> spans,
                                      std::span<SsmState* const> states) {
  const Tensor y = activation(in.x.shape);
  const int64_t channels = in.x.dim(1), n_state = in.b.dim(1);
  const std::vector<float*> memory = states_of(spans, states, {channels, n_state});
  const ScanArrays arrays{data_of(in.x),           data_of(in.dt),
                          data_of(in.b),           data_of(in.c),
                          data_as<float>(w.a_log), data_as<float>(w.dt_bias),
                          data_as<float>(w.d),     y.data};
  advance_and_store(spans, states, {channels, n_state}, [&](std::span<const Span> stretch) {
    std::vector<ScanSpan> used;
    for (size_t i = 0; i < stretch.size(); ++i)
      if (stretch[i].n_tokens > 0) used.push_back({stretch[i].row, stretch[i].n_tokens, memory[i]});
    cuda::selective_scan(in.x.dtype, arrays, device_copy(used), {static_cast<int64_t>(used.size()), channels, n_state},
                         stream_.get());
  });
  return y;
}

}  // namespace kvcal::cuda
