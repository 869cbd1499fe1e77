// Which rows of which sequences are sampled, and their tasks (sample_task.h).
#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/sample_task.h"
#include "tensor/dtype.h"

namespace kvcal::cpu {
namespace {

/// Sampled positions of a task: what rounding a block costs is shared by its rows, but 128 heads of one key-value head
/// (MLA) would take a hundred megabytes for each thread, and leave most threads without a task.
constexpr int64_t kMostPositions = 64, kMostRows = 512;
int64_t positions_of_task(int64_t group) { return std::clamp<int64_t>(kMostRows / group, 1, kMostPositions); }

/// For each position the largest magnitude of all rows up to it.
template <class T>
std::vector<float> running_absmax(const T* x, int64_t n, int64_t width) {
  std::vector<float> result(static_cast<size_t>(n));
  float before = 0;
  for (int64_t t = 0; t < n; ++t) {
    F32x8 top{};
    for (int64_t c = 0; c < width; c += kLanes) top = larger(magnitude(load(x + t * width + c, width - c)), top);
    before = std::max(before, largest(top));
    result[static_cast<size_t>(t)] = before;
  }
  return result;
}

/// |x|² of the rows that are asked for.
void squares_of(const Tensor& x, std::span<const int32_t> rows, double* squares) {
  std::vector<float> row(static_cast<size_t>(x.dim(1)));
  for (const int32_t at : rows) {
    convert_to_float(x.dtype, x.rows(at, 1).data, row.data(), row.size());
    double square = 0;
    for (const float value : row) square += static_cast<double>(value) * static_cast<double>(value);
    *squares++ = square;
  }
}

/// A sequence of which rows are sampled.
struct SampledSequence {
  Tensor key, value;  // rows of the sequence that end with those of its span
  int64_t n_tokens;
  std::vector<SampledRow> sampled;
};

/// Of sequence `sequence`, `n` of its sampled rows, from `first` on.
struct TaskRows {
  size_t sequence, first, n;
  int64_t kv_head;
};

/// With nothing sampled yet.
SampledSequence sequence_of(const Span& span, const KvRows* kept, const Tensor& k, const Tensor& v) {
  const int64_t n_tokens = span.first_position + span.n_tokens;
  if (kept) return {kept->key, kept->value, n_tokens, {}};
  return {k.rows(span.row, span.n_tokens), v.rows(span.row, span.n_tokens), n_tokens, {}};
}

/// The row request.rows[index] of the span, with the lowest rungs that clip nothing it sees.
template <class T>
SampledRow sampled_row(size_t index, const Span& span, const Tensor& q, const AttentionSpec& spec,
                       const SampleRequest& request, const std::vector<float>& keys, const std::vector<float>& values) {
  const int64_t row = request.rows[index], position = span.first_position + row - span.row;
  const int64_t last_key = spec.last_keys.empty() ? position : spec.last_keys[static_cast<size_t>(row)];
  const int64_t width = q.dim(1) * q.dim(2);
  const float query = running_absmax(q.as<T>() + row * width, 1, width)[0];
  return {.index = static_cast<int64_t>(index),
          .row = row,
          .position = position,
          .first_key = spec.first_key(position),
          .last_key = last_key,
          .key_rung = lowest_rung(keys[static_cast<size_t>(last_key)], request.format),
          .value_rung = lowest_rung(values[static_cast<size_t>(last_key)], request.format),
          .query_rung = lowest_rung(query, request.format),
          .thorough = !request.thorough.empty() && request.thorough[index] != 0,
          .picked = spec.picked ? spec.picked.rows(row, 1).as<uint64_t>() : nullptr};
}

/// What is sampled of a span, from request.rows[next] on, which ascend as the spans of a batch do.
template <class T>
void sample(const Span& span, const Tensor& q, const AttentionSpec& spec, const SampleRequest& request, size_t& next,
            SampledSequence& sequence) {
  const int64_t end = span.row + span.n_tokens;
  if (next == request.rows.size() || request.rows[next] >= end) return;
  const auto absmax_of = [&](const Tensor& x) {
    return running_absmax(x.as<T>(), sequence.n_tokens, x.dim(1) * x.dim(2));
  };
  const std::vector<float> keys = absmax_of(sequence.key);
  const std::vector<float> values = request.one_scale ? keys : absmax_of(sequence.value);
  for (; next < request.rows.size() && request.rows[next] < end; ++next)
    sequence.sampled.push_back(sampled_row<T>(next, span, q, spec, request, keys, values));
}

/// rungs [sampled rows, 2 or 3]: of keys and values, and of queries where some rows are thorough.
void write_rungs(const std::vector<SampledRow>& sampled, const Tensor& rungs) {
  for (const SampledRow& row : sampled) {
    int32_t* own = rungs.as<int32_t>() + row.index * rungs.dim(1);
    own[0] = row.key_rung;
    own[1] = row.value_rung;
    if (rungs.dim(1) > 2) own[2] = row.query_rung;
  }
}

void add_tasks(size_t index, const SampledSequence& sequence, int64_t n_heads, std::vector<TaskRows>& tasks) {
  if (sequence.sampled.empty()) return;
  const int64_t n_kv_heads = sequence.key.dim(1);
  const auto most = static_cast<size_t>(positions_of_task(n_heads / n_kv_heads));
  const size_t n = sequence.sampled.size();
  for (size_t first = 0; first < n; first += most)
    for (int64_t head = 0; head < n_kv_heads; ++head) tasks.push_back({index, first, std::min(most, n - first), head});
}

}  // namespace

AttentionSample CpuBackend::do_sample_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                                std::span<const Span> spans, std::span<const KvRows* const> kept,
                                                const AttentionSpec& spec, const SampleRequest& request) {
  const auto n_sampled = static_cast<int64_t>(request.rows.size());
  const bool has_thorough = !request.thorough.empty();
  const int64_t n_rungs = has_thorough ? 3 : 2,
                n_figures = has_thorough ? request.n_figures() : request.query_divergence();
  AttentionSample result{
      allocate({n_sampled, n_rungs}, DType::I32), allocate({n_sampled, q.dim(1), n_figures}, DType::F32), {}};
  if (request.stream) {
    result.stream = allocate({n_sampled}, DType::F64);
    squares_of(request.stream, request.rows, result.stream.view.as<double>());
  }
  std::vector<SampledSequence> sequences;
  std::vector<TaskRows> tasks;

  const auto run = [&]<class T, class Products>() {
    size_t next = 0;
    for (size_t s = 0; s < spans.size(); ++s) {
      sequences.push_back(sequence_of(spans[s], kept[s], k, v));
      sample<T>(spans[s], q, spec, request, next, sequences[s]);
      write_rungs(sequences[s].sampled, result.rungs.view);
      add_tasks(s, sequences[s], q.dim(1), tasks);
    }
    parallel(static_cast<int64_t>(tasks.size()), [&](int64_t i, Arena& scratch) {
      const TaskRows& task = tasks[static_cast<size_t>(i)];
      const SampledSequence& of = sequences[task.sequence];
      const Shape4 shape{q.dim(1), of.key.dim(1), q.dim(2), of.value.dim(2)};
      const typename SampleTask<T, Products>::Input in{q.as<T>(), of.key.as<T>(), of.value.as<T>(), of.n_tokens,
                                                       spec,      request,        n_figures};
      SampleTask<T, Products>(shape, in, task.kv_head, std::span(of.sampled).subspan(task.first, task.n), scratch)
          .run(result.figures.view.as<float>());
    });
  };
#ifdef KVCAL_AVX512_BF16
  if (pairs_ && q.dtype == DType::BF16) {
#ifdef KVCAL_AMX
    if (tiles_) {
      run.template operator()<bf16, PairSample<tile_gemm>>();
      return result;
    }
#endif
    run.template operator()<bf16, PairSample<pair_gemm>>();
    return result;
  }
#endif
  visit_activation(q.dtype, [&](auto tag) { run.template operator()<decltype(tag), WideSample>(); });
  return result;
}

}  // namespace kvcal::cpu
