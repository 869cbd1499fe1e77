// Causal softmax attention, a key block of 64 absolute positions at a time, with a running maximum and sum per query
// row (online softmax).
//
// One task is (span, key-value head, block of query positions); its rows are the positions times the query heads that
// share the key-value head. A row meets exactly those key blocks that hold a key visible to it, in ascending order, and
// small_gemm treats every row alone: so its arithmetic depends neither on the query block, nor on the chunk of the
// sequence it came in, nor on what else is in the batch.
#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/math.h"
#include "ops/cpu/small_gemm.h"

namespace kvcal::cpu {
namespace {

constexpr int64_t kKeys = 64;         // positions of a key block
constexpr int64_t kTargetRows = 256;  // rows of a task: enough to pay for repacking the key block
constexpr float kNone = -std::numeric_limits<float>::infinity();

struct Heads {
  int64_t n_heads, n_kv_heads, key_dim, value_dim;
  int64_t group() const { return n_heads / n_kv_heads; }
};

/// Keys and values of one sequence, position 0 first: [n, n_kv_heads, key_dim] and [.., value_dim].
template <class T>
struct Sequence {
  const T *key, *value;
  int64_t n;
};

/// Running state of a task's rows.
struct Rows {
  int64_t n;
  float* query;    // [n, key stride]
  float* output;   // [n, value stride]
  float* maximum;  // [n]
  float* total;    // [n]
  float* logits;   // [n, kKeys stride]: then the probabilities
  int64_t query_row, output_row;
};

constexpr int64_t kLogitsRow = row_stride(kKeys);

/// Keys of a block that a row sees: first <= j < last.
struct Visible {
  int64_t first, last;
  bool all() const { return first <= 0 && last >= kKeys; }
};

/// One row's logits -> probabilities against the new maximum; the output so far is rescaled. The maximum may miss a
/// NaN, but that logit's own probability is NaN, and with it the total and the output.
template <class T>
void softmax_row(float* logits, Visible visible, float scale, float& maximum, float& total, float* output,
                 int64_t value_dim) {
  constexpr int kVectors = kKeys / kLanes;
  constexpr I32x8 kIndex = {0, 1, 2, 3, 4, 5, 6, 7};
  F32x8 s[kVectors];
  for (int b = 0; b < kVectors; ++b) s[b] = load8(logits + b * kLanes) * scale;
  if (!visible.all())
    for (int b = 0; b < kVectors; ++b) {
      const I32x8 j = kIndex + b * kLanes;
      s[b] =
          (j >= static_cast<int32_t>(visible.first)) & (j < static_cast<int32_t>(visible.last)) ? s[b] : splat(kNone);
    }
  F32x8 top = splat(maximum);
  for (int b = 0; b < kVectors; ++b) top = larger(s[b], top);
  const float next = largest(top);
  F32x8 sums{};
  for (int b = 0; b < kVectors; ++b) {
    const F32x8 p = exp(s[b] - next);
    sums += p;
    store8(logits + b * kLanes, rounded_to<T>(p));
  }
  const float correction = exp(splat(maximum - next))[0];
  total = total * correction + sum(sums);
  if (maximum != next)  // else the factor is exactly one
    for (int64_t i = 0; i < value_dim; i += kLanes) store8(output + i, load8(output + i) * correction);
  maximum = next;
}

/// One (span, key-value head, block of query positions).
template <class T>
class AttentionTask {
 public:
  AttentionTask(const Heads& heads, const AttentionSpec& spec, const Sequence<T>& sequence, int64_t kv_head,
                Arena& scratch)
      : h_(heads), spec_(spec), sequence_(sequence), kv_head_(kv_head), scratch_(scratch) {}

  /// q, y: rows of the batch that hold positions first .. first + n - 1.
  void run(const T* q, T* y, int64_t first, int64_t n) {
    begin(q, first, n);
    const int64_t group = h_.group(), last = first + n - 1;
    const int64_t lowest = spec_.window > 0 ? std::max<int64_t>(0, first - spec_.window + 1) : 0;
    for (int64_t key0 = lowest / kKeys * kKeys; key0 <= last; key0 += kKeys) {
      // Positions that see a key of this block: a contiguous range, as rows are in order of position.
      const int64_t from = std::max(first, key0);
      const int64_t to = spec_.window > 0 ? std::min(last, key0 + kKeys - 1 + spec_.window - 1) : last;
      if (from > to) continue;
      load_keys(key0);
      key_block(key0, (from - first) * group, (to - from + 1) * group);
    }
    finish(y, n);
  }

 private:
  float* floats(int64_t n) { return scratch_.allocate({n}, DType::F32).template as<float>(); }

  void begin(const T* q, int64_t first, int64_t n) {
    first_ = first;
    const int64_t group = h_.group();
    rows_.n = n * group;
    rows_.query_row = row_stride(h_.key_dim);
    rows_.output_row = row_stride(h_.value_dim);
    rows_.query = floats(rows_.n * rows_.query_row);
    rows_.output = floats(rows_.n * rows_.output_row);
    rows_.maximum = floats(rows_.n);
    rows_.total = floats(rows_.n);
    rows_.logits = floats(rows_.n * kLogitsRow);
    keys_ = floats(h_.key_dim * kLogitsRow);
    values_ = floats(kKeys * rows_.output_row);
    key_rows_ = floats(kKeys * rows_.query_row);
    // Columns beyond the value width are multiplied too, and dropped.
    std::fill_n(values_, kKeys * rows_.output_row, 0.0f);
    std::fill_n(rows_.output, rows_.n * rows_.output_row, 0.0f);
    std::fill_n(rows_.maximum, rows_.n, kNone);
    std::fill_n(rows_.total, rows_.n, 0.0f);
    for (int64_t r = 0; r < rows_.n; ++r)
      copy_wide(q + (r / group * h_.n_heads + kv_head_ * group + r % group) * h_.key_dim,
                rows_.query + r * rows_.query_row, h_.key_dim);
  }

  /// Keys transposed, [key_dim, kKeys], and values, [kKeys, value_dim], with zeros beyond the sequence.
  void load_keys(int64_t key0) {
    const int64_t n = std::min(kKeys, sequence_.n - key0);
    if (n < kKeys) {
      std::fill_n(keys_, h_.key_dim * kLogitsRow, 0.0f);
      std::fill_n(values_, kKeys * rows_.output_row, 0.0f);
    }
    const auto row = [&](int64_t j) { return (key0 + j) * h_.n_kv_heads + kv_head_; };
    for (int64_t j = 0; j < n; ++j) {
      copy_wide(sequence_.value + row(j) * h_.value_dim, values_ + j * rows_.output_row, h_.value_dim);
      copy_wide(sequence_.key + row(j) * h_.key_dim, key_rows_ + j * rows_.query_row, h_.key_dim);
    }
    transpose(key_rows_, rows_.query_row, n, h_.key_dim, keys_, kLogitsRow);
    for (int64_t j = kKeys; j < std::min(2 * kKeys, sequence_.n - key0); ++j) {  // rows lie far apart: fetch the next
      prefetch(sequence_.key + row(j) * h_.key_dim, h_.key_dim);
      prefetch(sequence_.value + row(j) * h_.value_dim, h_.value_dim);
    }
  }

  void key_block(int64_t key0, int64_t row0, int64_t n_rows) {
    float* logits = rows_.logits + row0 * kLogitsRow;
    float* output = rows_.output + row0 * rows_.output_row;
    small_gemm(n_rows, kKeys, h_.key_dim, {rows_.query + row0 * rows_.query_row, rows_.query_row}, keys_, kLogitsRow,
               logits, kLogitsRow, false);
    for (int64_t r = 0; r < n_rows; ++r) {
      const int64_t position = first_ + (row0 + r) / h_.group();
      const Visible visible{spec_.window > 0 ? position - spec_.window + 1 - key0 : 0, position - key0 + 1};
      softmax_row<T>(logits + r * kLogitsRow, visible, spec_.scale, rows_.maximum[row0 + r], rows_.total[row0 + r],
                     output + r * rows_.output_row, padded_columns(h_.value_dim));
    }
    small_gemm(n_rows, h_.value_dim, kKeys, {logits, kLogitsRow}, values_, rows_.output_row, output, rows_.output_row,
               true);
  }

  void finish(T* y, int64_t n) {
    const int64_t group = h_.group();
    for (int64_t r = 0; r < n * group; ++r) {
      T* to = y + (r / group * h_.n_heads + kv_head_ * group + r % group) * h_.value_dim;
      const float* from = rows_.output + r * rows_.output_row;
      for (int64_t i = 0; i < h_.value_dim; i += kLanes)
        store(to + i, load8(from + i) / rows_.total[r], h_.value_dim - i);
    }
  }

  const Heads& h_;
  const AttentionSpec& spec_;
  const Sequence<T>& sequence_;
  int64_t kv_head_;
  Arena& scratch_;
  int64_t first_ = 0;
  Rows rows_{};
  float* keys_ = nullptr;      // [key_dim, kLogitsRow]
  float* values_ = nullptr;    // [kKeys, value stride]
  float* key_rows_ = nullptr;  // [kKeys, key stride]
};

/// Room for n more rows; capacity doubles when the first guess was too small.
void reserve(Ops& ops, KvRows& rows, int64_t n, const Tensor& k, const Tensor& v) {
  const int64_t needed = rows.n_tokens + n, capacity = rows.key ? rows.key.view.dim(0) : 0;
  if (needed <= capacity) return;
  const int64_t grown = capacity == 0 ? std::max(rows.max_tokens, needed) : std::max(2 * capacity, needed);
  const auto grow = [&](Owned& old, const Tensor& like) {
    const Owned fresh = ops.allocate({grown, like.dim(1), like.dim(2)}, like.dtype);
    const Tensor used = fresh.view.rows(0, rows.n_tokens);
    if (old && used.bytes() > 0) std::memcpy(used.data, old.view.data, used.bytes());
    old = fresh;
  };
  grow(rows.key, k);
  grow(rows.value, v);
}

void append(Ops& ops, KvRows& rows, const Span& span, const Tensor& k, const Tensor& v) {
  reserve(ops, rows, span.n_tokens, k, v);
  const auto copy = [&](const Owned& to, const Tensor& from) {
    const Tensor source = from.rows(span.row, span.n_tokens);
    if (source.bytes() > 0) std::memcpy(to.view.rows(rows.n_tokens, span.n_tokens).data, source.data, source.bytes());
  };
  copy(rows.key, k);
  copy(rows.value, v);
  rows.n_tokens += span.n_tokens;
}

}  // namespace

Tensor CpuBackend::do_attention(const Tensor& q, const Tensor& k, const Tensor& v, std::span<const Span> spans,
                                std::span<KvRows* const> rows, const AttentionSpec& spec) {
  const Heads heads{q.dim(1), k.dim(1), q.dim(2), v.dim(2)};
  const Tensor y = activation({q.dim(0), heads.n_heads * heads.value_dim});
  struct Task {
    size_t span;
    int64_t kv_head, begin, end;  // positions
  };
  std::vector<Task> tasks;
  const int64_t block = std::clamp<int64_t>(kTargetRows / heads.group(), 16, 128);
  for (size_t s = 0; s < spans.size(); ++s) {
    if (rows[s]) append(*this, *rows[s], spans[s], k, v);
    const int64_t end = spans[s].first_position + spans[s].n_tokens;
    for (int64_t at = spans[s].first_position; at < end; at = (at / block + 1) * block)
      for (int64_t head = 0; head < heads.n_kv_heads; ++head)
        tasks.push_back({s, head, at, std::min(end, (at / block + 1) * block)});
  }
  // The longest tasks first: those that end a batch should be short.
  std::stable_sort(tasks.begin(), tasks.end(), [](const Task& a, const Task& b) { return a.begin > b.begin; });

  visit_activation(q.dtype, [&](auto tag) {
    using T = decltype(tag);
    parallel(static_cast<int64_t>(tasks.size()), [&](int64_t i, Arena& scratch) {
      const Task& task = tasks[static_cast<size_t>(i)];
      const Span& span = spans[task.span];
      const KvRows* kept = rows[task.span];
      const Sequence<T> sequence =
          kept ? Sequence<T>{kept->key.view.as<T>(), kept->value.view.as<T>(), kept->n_tokens}
               : Sequence<T>{k.as<T>() + span.row * heads.n_kv_heads * heads.key_dim,
                             v.as<T>() + span.row * heads.n_kv_heads * heads.value_dim, span.n_tokens};
      const int64_t row = span.row + task.begin - span.first_position;
      AttentionTask<T>(heads, spec, sequence, task.kv_head, scratch)
          .run(q.as<T>() + row * heads.n_heads * heads.key_dim, y.as<T>() + row * heads.n_heads * heads.value_dim,
               task.begin, task.end - task.begin);
    });
  });
  return y;
}

}  // namespace kvcal::cpu
