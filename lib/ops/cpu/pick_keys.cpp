// Which keys an indexer lets a query see. A task has some queries of a span and walks once over the keys before them;
// a query's scores, and so its choice, do not depend on the others.
#include <algorithm>
#include <bit>
#include <vector>

#include "ops/cpu/attention_products.h"
#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/math.h"

namespace kvcal::cpu {
namespace {

constexpr int64_t kQueries = 16;     // of a task: enough to pay for repacking a block of keys
constexpr int64_t kRanks = 1 << 20;  // of a task, unless one query has more: 4 MiB for each thread
constexpr uint32_t kBest = ~uint32_t{0};

/// In the order of the scores, NaN on top; both zeros are one.
uint32_t rank_of(float score) {
  if (score != score) return kBest;
  const auto bits = std::bit_cast<uint32_t>(score + 0.0f);
  return bits >> 31 ? ~bits : bits | 1u << 31;
}

/// The keys up to `position` of the best units of `spec`, by the rank of each key; as bits.
void pick(const uint32_t* ranks, int64_t position, const PickSpec& spec, uint64_t* words) {
  const int64_t own = position / spec.block;
  std::vector<uint64_t> units;  // rank, then how early it is
  for (int64_t u = 0; u <= own; ++u) {
    const uint32_t* first = ranks + u * spec.block;
    const uint32_t best =
        u > own - spec.n_local ? kBest : *std::max_element(first, std::min(first + spec.block, ranks + position + 1));
    units.push_back(uint64_t{best} << 32 | (kBest - static_cast<uint32_t>(u)));
  }
  uint64_t least = 0;
  if (static_cast<int64_t>(units.size()) > spec.n_picked) {
    std::vector<uint64_t> sorted = units;
    const auto last = sorted.begin() + spec.n_picked - 1;
    std::nth_element(sorted.begin(), last, sorted.end(), std::greater<>());
    least = *last;
  }
  for (int64_t j = 0; j <= position; ++j)
    if (units[static_cast<size_t>(j / spec.block)] >= least) words[j / kPickBits] |= uint64_t{1} << (j % kPickBits);
}

/// Queries at positions first, first + 1, ... of one sequence.
template <class T>
class PickTask {
 public:
  struct Input {
    const T *q, *weights, *keys;  // [tokens, heads, dim], [tokens, heads] or null, of the task's rows; from position 0
    int64_t n_heads, dim, first, n_queries;
    const PickSpec& spec;
  };

  PickTask(const Input& in, Arena& scratch)
      : in_(in),
        n_pickers_(in.weights ? 1 : in.n_heads),
        query_row_(row_stride(in.dim)),
        ranks_row_((in.first + in.n_queries + kKeys - 1) / kKeys * kKeys),
        ranks_(static_cast<size_t>(in.n_queries * n_pickers_ * ranks_row_)) {
    const auto floats = [&](int64_t n) { return scratch.allocate({n}, DType::F32).template as<float>(); };
    query_ = floats(in.n_queries * in.n_heads * query_row_);
    key_rows_ = floats(kKeys * query_row_);
    keys_ = floats(in.dim * kLogitsRow);
    dots_ = floats(in.n_heads * kLogitsRow);
    for (int64_t r = 0; r < in.n_queries * in.n_heads; ++r)
      copy_wide(in.q + r * in.dim, query_ + r * query_row_, in.dim);
  }

  /// words: [queries, pickers, n_words], zeros.
  void run(uint64_t* words, int64_t n_words) {
    const int64_t end = in_.first + in_.n_queries;
    const bool chooses = end > in_.spec.n_picked * in_.spec.block;  // else all are picked, whatever their ranks
    for (int64_t key0 = 0; chooses && key0 < end; key0 += kKeys) {
      const int64_t n = std::min(kKeys, end - key0);
      for (int64_t j = 0; j < n; ++j) copy_wide(in_.keys + (key0 + j) * in_.dim, key_rows_ + j * query_row_, in_.dim);
      std::fill_n(keys_, in_.dim * kLogitsRow, 0.0f);
      transpose(key_rows_, query_row_, n, in_.dim, keys_, kLogitsRow);
      for (int64_t query = 0; query < in_.n_queries; ++query) rank_keys(query, key0);
    }
    for (int64_t i = 0; i < in_.n_queries * n_pickers_; ++i)
      pick(ranks_.data() + i * ranks_row_, in_.first + i / n_pickers_, in_.spec, words + i * n_words);
  }

 private:
  /// The block of keys that is loaded, for one query.
  void rank_keys(int64_t query, int64_t key0) {
    small_gemm(in_.n_heads, kKeys, in_.dim, {query_ + query * in_.n_heads * query_row_, query_row_}, keys_, kLogitsRow,
               dots_, kLogitsRow, false);
    if (in_.weights) add_heads(in_.weights + query * in_.n_heads);
    for (int64_t picker = 0; picker < n_pickers_; ++picker)
      for (int64_t j = 0; j < kKeys; ++j)
        ranks_[static_cast<size_t>((query * n_pickers_ + picker) * ranks_row_ + key0 + j)] =
            rank_of(dots_[picker * kLogitsRow + j]);
  }

  /// Products -> Σ_h weights_h max(0, product), in the first head's place.
  void add_heads(const T* weights) {
    for (int64_t j = 0; j < kKeys; j += kLanes) {
      F32x8 score{};
      for (int64_t h = 0; h < in_.n_heads; ++h) {
        const F32x8 dot = load8(dots_ + h * kLogitsRow + j);
        score += (dot > 0.0f ? dot : F32x8{}) * cpu::load(weights + h, 1)[0];
      }
      store8(dots_ + j, score);
    }
  }

  const Input& in_;
  int64_t n_pickers_, query_row_, ranks_row_;
  std::vector<uint32_t> ranks_;  // [queries, pickers, ranks_row]
  float *query_, *key_rows_, *keys_, *dots_;
};

}  // namespace

Owned CpuBackend::do_pick_keys(const Tensor& q, const Tensor& weights, const Tensor& k, std::span<const Span> spans,
                               std::span<const KvRows* const> kept, const PickSpec& spec) {
  const int64_t heads = q.dim(1), dim = q.dim(2), pickers = weights ? 1 : heads;
  int64_t n_words = 0;
  struct Task {
    size_t span;
    int64_t first, n;  // positions
  };
  std::vector<Task> tasks;
  for (size_t s = 0; s < spans.size(); ++s) {
    const int64_t end = spans[s].first_position + spans[s].n_tokens;
    n_words = std::max(n_words, (end + kPickBits - 1) / kPickBits);
    const int64_t queries = std::clamp<int64_t>(kRanks / std::max<int64_t>(pickers * end, 1), 1, kQueries);
    for (int64_t at = spans[s].first_position; at < end; at += queries)
      tasks.push_back({s, at, std::min(queries, end - at)});
  }
  const Owned picked = allocate({q.dim(0), pickers, n_words}, DType::I64);
  visit_activation(q.dtype, [&](auto tag) {
    using T = decltype(tag);
    parallel(static_cast<int64_t>(tasks.size()), [&](int64_t i, Arena& scratch) {
      const Task& task = tasks[static_cast<size_t>(i)];
      const Span& span = spans[task.span];
      const int64_t row = span.row + task.first - span.first_position;
      const Tensor keys = kept[task.span] ? kept[task.span]->key.view : k.rows(span.row, span.n_tokens);
      const typename PickTask<T>::Input in{q.rows(row, task.n).as<T>(),
                                           weights ? weights.rows(row, task.n).as<T>() : nullptr,
                                           keys.as<T>(),
                                           heads,
                                           dim,
                                           task.first,
                                           task.n,
                                           spec};
      PickTask<T>(in, scratch).run(picked.view.rows(row, task.n).template as<uint64_t>(), n_words);
    });
  });
  return picked;
}

}  // namespace kvcal::cpu
