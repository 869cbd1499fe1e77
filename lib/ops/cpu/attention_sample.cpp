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
  auto* rungs = result.rungs.view.as<int32_t>();
  auto* figures = result.figures.view.as<float>();

  struct Sequence {
    KeysAndValues rows;
    std::vector<SampledRow> sampled;
  };
  std::vector<Sequence> sequences;
  struct Task {
    size_t sequence, first, n;
    int64_t kv_head;
  };
  std::vector<Task> tasks;

  const auto run = [&]<class T, class Products>() {
    size_t next = 0;  // of request.rows, which ascend as the spans of a batch do
    for (size_t s = 0; s < spans.size(); ++s) {
      const Span& span = spans[s];
      const int64_t end = span.first_position + span.n_tokens;
      Sequence sequence{kept[s] ? KeysAndValues{kept[s]->key, kept[s]->value, end}
                                : KeysAndValues{k.rows(span.row, span.n_tokens), v.rows(span.row, span.n_tokens), end},
                        {}};
      std::vector<float> keys, values;
      for (; next < request.rows.size() && request.rows[next] < span.row + span.n_tokens; ++next) {
        if (keys.empty()) {
          const Tensor &key = sequence.rows.key, &value = sequence.rows.value;
          keys = running_absmax(key.as<T>(), end, key.dim(1) * key.dim(2));
          values = request.one_scale ? keys : running_absmax(value.as<T>(), end, value.dim(1) * value.dim(2));
        }
        const int64_t row = request.rows[next], position = span.first_position + row - span.row;
        SampledRow sampled{static_cast<int64_t>(next),
                           row,
                           position,
                           spec.first_key(position),
                           spec.last_keys.empty() ? position : spec.last_keys[static_cast<size_t>(row)],
                           0,
                           0,
                           0,
                           has_thorough && request.thorough[next] != 0,
                           spec.picked ? spec.picked.rows(row, 1).as<uint64_t>() : nullptr};
        const auto last_key = static_cast<size_t>(sampled.last_key);
        const int64_t width = q.dim(1) * q.dim(2);
        sampled.key_rung = lowest_rung(keys[last_key], request.format);
        sampled.value_rung = lowest_rung(values[last_key], request.format);
        sampled.query_rung = lowest_rung(running_absmax(q.as<T>() + row * width, 1, width)[0], request.format);
        int32_t* own = rungs + static_cast<int64_t>(next) * n_rungs;
        own[0] = sampled.key_rung;
        own[1] = sampled.value_rung;
        if (has_thorough) own[2] = sampled.query_rung;
        sequence.sampled.push_back(sampled);
      }
      const size_t n = sequence.sampled.size();
      if (n == 0) continue;
      const int64_t n_kv_heads = sequence.rows.key.dim(1);
      const auto most = static_cast<size_t>(positions_of_task(q.dim(1) / n_kv_heads));
      for (size_t first = 0; first < n; first += most)
        for (int64_t head = 0; head < n_kv_heads; ++head)
          tasks.push_back({sequences.size(), first, std::min(most, n - first), head});
      sequences.push_back(std::move(sequence));
    }
    parallel(static_cast<int64_t>(tasks.size()), [&](int64_t i, Arena& scratch) {
      const Task& task = tasks[static_cast<size_t>(i)];
      const Sequence& sequence = sequences[task.sequence];
      const Shape4 shape{q.dim(1), sequence.rows.key.dim(1), q.dim(2), sequence.rows.value.dim(2)};
      const typename SampleTask<T, Products>::Input in{
          q.as<T>(), sequence.rows.key.as<T>(), sequence.rows.value.as<T>(), sequence.rows.n_tokens, spec, request,
          n_figures};
      SampleTask<T, Products>(shape, in, task.kv_head, std::span(sequence.sampled).subspan(task.first, task.n), scratch)
          .run(figures);
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
