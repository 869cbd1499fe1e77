// Sampled attention: which rows of which sequences. Everything is queued; the figures stay on the device.
#include <algorithm>
#include <vector>

#include "kernels/cuda_backend.h"
#include "kernels/kernels.h"

namespace kvcal::cuda {
namespace {

struct Sampled {
  std::vector<SampledSequence> sequences;
  std::vector<SampledRow> rows;
  SampleShape shape{};
  int64_t n_positions = 0;  // of all sequences
};

/// Where the rows of a span's sequence are.
struct SequenceRows {
  const void *key, *value;
};

/// rows_of(i): SequenceRows of span i, which has sampled rows.
template <class F>
Sampled sampled_of(std::span<const Span> spans, const AttentionSpec& spec, std::span<const int32_t> rows, F rows_of) {
  Sampled s;
  size_t next = 0;  // of rows, which ascend as the spans do
  for (size_t i = 0; i < spans.size(); ++i) {
    const Span& span = spans[i];
    const size_t first = next;
    for (; next < rows.size() && rows[next] < span.row + span.n_tokens; ++next) {
      const int64_t position = span.first_position + rows[next] - span.row;
      const int64_t last = spec.last_keys.empty() ? position : spec.last_keys[static_cast<size_t>(rows[next])];
      s.rows.push_back({rows[next], static_cast<int32_t>(s.sequences.size()),
                        static_cast<int32_t>(spec.first_key(position)), static_cast<int32_t>(last)});
    }
    if (next == first) continue;
    const int64_t end = span.first_position + span.n_tokens, n = static_cast<int64_t>(next - first);
    const SequenceRows from = rows_of(i);
    s.sequences.push_back(
        {from.key, from.value, end, s.n_positions, static_cast<int32_t>(first), static_cast<int32_t>(n)});
    s.n_positions += end;
    s.shape.longest = std::max(s.shape.longest, end);
    s.shape.most_rows = std::max(s.shape.most_rows, n);
  }
  s.shape.n_sequences = static_cast<int64_t>(s.sequences.size());
  s.shape.n_rows = static_cast<int64_t>(s.rows.size());
  return s;
}

}  // namespace

AttentionSample CudaBackend::do_sample_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                                 std::span<const Span> spans, std::span<const KvRows* const> kept,
                                                 const AttentionSpec& spec, const SampleRequest& request) {
  constexpr int kRungs = 2;
  const auto n = static_cast<int64_t>(request.rows.size());
  const AttentionSample sample{allocate({n, kRungs}, DType::I32),
                               allocate({n, q.dim(1), request.query_divergence()}, DType::F32)};
  if (request.rows.empty()) return sample;
  const Tensor *key = &k, *value = &v;  // for their extents
  Sampled s = sampled_of(spans, spec, request.rows, [&](size_t i) -> SequenceRows {
    if (!kept[i])
      return {data_of(k.rows(spans[i].row, spans[i].n_tokens)), data_of(v.rows(spans[i].row, spans[i].n_tokens))};
    key = &kept[i]->key.view;
    value = &kept[i]->value.view;
    return {data_of(*key), data_of(*value)};
  });
  s.shape.n_heads = q.dim(1);
  s.shape.n_kv_heads = key->dim(1);
  s.shape.key_dim = key->dim(2);
  s.shape.value_dim = value->dim(2);
  s.shape.scale = spec.scale;
  s.shape.softcap = spec.softcap;
  s.shape.format = request.format;
  s.shape.rungs_below = request.rungs_below;
  s.shape.n_slots = request.cache().size();
  s.shape.n_rungs = kRungs;
  s.shape.n_figures = request.query_divergence();
  s.shape.output = request.output();
  s.shape.key_divergence = request.key_divergence();
  s.shape.value_change = request.value_change();
  const auto absmax = [&] { return data_as<float>(temporary({s.n_positions}, DType::F32)); };
  SampleArrays arrays{};
  arrays.q = data_of(q);
  arrays.sequences = device_copy(s.sequences);
  arrays.rows = device_copy(s.rows);
  arrays.sinks = spec.sinks ? data_as<float>(spec.sinks) : nullptr;
  arrays.column_norms = data_as<float>(request.column_norms);
  arrays.key_absmax = absmax();
  arrays.value_absmax = request.one_scale ? arrays.key_absmax : absmax();
  arrays.rungs = data_as<int32_t>(sample.rungs);
  arrays.figures = data_as<float>(sample.figures);
  sample_rungs(q.dtype, arrays, s.shape, stream_.get());
  cuda::sample_attention(q.dtype, arrays, s.shape, stream_.get());
  return sample;
}

}  // namespace kvcal::cuda
