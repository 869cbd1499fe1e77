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
  int64_t n_positions = 0;             // of all sequences
  int64_t longest = 0, most_rows = 0;  // of a sequence
};

/// Where the rows of a span's sequence are.
struct SequenceRows {
  const void *key, *value;
};

/// All rows of the request, or the thorough ones. rows_of(i): SequenceRows of span i, which has some.
template <class F>
Sampled sampled_of(std::span<const Span> spans, const AttentionSpec& spec, const SampleRequest& request,
                   bool only_thorough, F rows_of) {
  Sampled s;
  size_t next = 0;  // of the request's rows, which ascend as the spans do
  for (size_t i = 0; i < spans.size(); ++i) {
    const Span& span = spans[i];
    const size_t first = s.rows.size();
    for (; next < request.rows.size() && request.rows[next] < span.row + span.n_tokens; ++next) {
      if (only_thorough && !request.thorough[next]) continue;
      const int32_t row = request.rows[next];
      const int64_t position = span.first_position + row - span.row;
      const int64_t last = spec.last_keys.empty() ? position : spec.last_keys[static_cast<size_t>(row)];
      const bool thorough = !request.thorough.empty() && request.thorough[next];
      s.rows.push_back({row, static_cast<int32_t>(next), static_cast<int32_t>(s.sequences.size()),
                        static_cast<int32_t>(spec.first_key(position)), static_cast<int32_t>(last), thorough});
    }
    const auto n = static_cast<int64_t>(s.rows.size() - first);
    if (n == 0) continue;
    const int64_t end = span.first_position + span.n_tokens;
    const SequenceRows from = rows_of(i);
    s.sequences.push_back(
        {from.key, from.value, end, s.n_positions, static_cast<int32_t>(first), static_cast<int32_t>(n)});
    s.n_positions += end;
    s.longest = std::max(s.longest, end);
    s.most_rows = std::max(s.most_rows, n);
  }
  return s;
}

/// What does not depend on which rows are tried.
SampleShape shape_of(const SampleRequest& request, const AttentionSpec& spec) {
  SampleShape s{};
  s.scale = spec.scale;
  s.softcap = spec.softcap;
  s.format = request.format;
  s.cache = request.cache();
  s.query = request.query();
  s.n_rungs = request.thorough.empty() ? 2 : 3;
  s.n_figures = request.thorough.empty() ? request.query_divergence() : request.n_figures();
  s.output = request.output();
  s.key_divergence = request.key_divergence();
  s.value_change = request.value_change();
  s.query_divergence = request.query_divergence();
  s.key_change = request.key_change();
  return s;
}

}  // namespace

AttentionSample CudaBackend::do_sample_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                                 std::span<const Span> spans, std::span<const KvRows* const> kept,
                                                 const AttentionSpec& spec, const SampleRequest& request) {
  SampleShape shape = shape_of(request, spec);
  const auto n = static_cast<int64_t>(request.rows.size());
  const AttentionSample sample{allocate({n, shape.n_rungs}, DType::I32),
                               allocate({n, q.dim(1), shape.n_figures}, DType::F32),
                               request.stream ? allocate({n}, DType::F64) : Owned{}};
  if (request.rows.empty()) return sample;
  const Tensor *key = &k, *value = &v;  // for their extents
  const auto rows_of = [&](size_t i) -> SequenceRows {
    if (!kept[i])
      return {data_of(k.rows(spans[i].row, spans[i].n_tokens)), data_of(v.rows(spans[i].row, spans[i].n_tokens))};
    key = &kept[i]->key.view;
    value = &kept[i]->value.view;
    return {data_of(*key), data_of(*value)};
  };
  SampleArrays arrays{};
  const auto take = [&](const Sampled& s) {
    arrays.sequences = device_copy(s.sequences);
    arrays.rows = device_copy(s.rows);
    shape.n_sequences = static_cast<int64_t>(s.sequences.size());
    shape.n_rows = static_cast<int64_t>(s.rows.size());
    shape.longest = s.longest;
    shape.most_rows = s.most_rows;
  };
  const Sampled all = sampled_of(spans, spec, request, false, rows_of);
  take(all);
  shape.n_heads = q.dim(1);
  shape.n_kv_heads = key->dim(1);
  shape.key_dim = key->dim(2);
  shape.value_dim = value->dim(2);
  const auto absmax = [&] { return data_as<float>(temporary({all.n_positions}, DType::F32)); };
  arrays.q = data_of(q);
  arrays.sinks = spec.sinks ? data_as<float>(spec.sinks) : nullptr;
  arrays.column_norms = data_as<float>(request.column_norms);
  arrays.picked = picked_keys(spec.picked, q.dim(1));
  arrays.key_absmax = absmax();
  arrays.value_absmax = request.one_scale ? arrays.key_absmax : absmax();
  const auto integers = [&](const Shape& extents) { return data_as<int32_t>(temporary(extents, DType::I32)); };
  arrays.block_alike = integers({all.n_positions / kAlikeTokens + 1, shape.n_kv_heads, 2});
  arrays.alike = integers({n, shape.n_kv_heads, 2});
  arrays.query_alike = integers({n, shape.n_heads});
  arrays.rungs = data_as<int32_t>(sample.rungs);
  arrays.figures = data_as<float>(sample.figures);
  sample_rungs(q.dtype, arrays, shape, stream_.get());
  cuda::sample_attention(q.dtype, arrays, shape, stream_.get());
  if (const Tensor& x = request.stream)
    sample_stream(x.dtype, {data_of(x), data_as<double>(sample.stream), width_of(x)}, arrays.rows, shape.n_rows,
                  stream_.get());
  if (request.thorough.empty()) return sample;
  take(sampled_of(spans, spec, request, true, rows_of));
  sample_thorough(q.dtype, arrays, shape, stream_.get());
  return sample;
}

}  // namespace kvcal::cuda
