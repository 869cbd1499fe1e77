// Causal softmax attention, a key block of 64 absolute positions at a time, with a running maximum and sum per query
// row (online softmax).
//
// One task is (span, key-value head, block of query positions); its rows are the positions times the query heads that
// share the key-value head. A row meets exactly those key blocks that hold a key visible to it, in ascending order, and
// the products treat every row alone: so its arithmetic depends neither on the query block, nor on the chunk of the
// sequence it came in, nor on what else is in the batch.
#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "ops/cpu/attention_products.h"
#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/math.h"

namespace kvcal::cpu {
namespace {

constexpr int64_t kTargetRows = 256;  // rows of a task: enough to pay for repacking the key block

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

/// One (span, key-value head, block of query positions).
template <class T, class Products>
class AttentionTask {
 public:
  AttentionTask(const Heads& heads, const AttentionSpec& spec, const Sequence<T>& sequence, int64_t kv_head,
                int64_t n_positions, Arena& scratch)
      : h_(heads),
        spec_(spec),
        sequence_(sequence),
        kv_head_(kv_head),
        n_rows_(n_positions * heads.group()),
        products_(n_rows_, heads.key_dim, heads.value_dim, scratch),
        output_(scratch.allocate({n_rows_ * products_.output_row()}, DType::F32).template as<float>()),
        rows_(static_cast<size_t>(n_rows_), RowState{}) {
    std::fill_n(output_, n_rows_ * products_.output_row(), 0.0f);
  }

  /// q, y: rows of the batch that hold positions first, first + 1, ... last_keys, picked: of those, or null.
  void run(const T* q, T* y, int64_t first, const int32_t* last_keys, const uint64_t* picked) {
    const int64_t group = h_.group(), last = first + n_rows_ / group - 1;
    first_ = first;
    last_keys_ = last_keys;
    picked_ = picked;
    for (int64_t r = 0; r < n_rows_; ++r) products_.load_query(r, q + head_row(r) * h_.key_dim);
    for (int64_t r = 0; r < n_rows_ && spec_.sinks && !spec_.probabilities.sinks_last; ++r)
      rows_[static_cast<size_t>(r)] = {sink(r), 1.0f};  // a first key without a value
    int64_t from = first;
    for (int64_t key0 = first_key(first) / kKeys * kKeys; key0 <= last_key(last); key0 += kKeys) {
      // Positions that see a key of this block: a contiguous range, as rows are in order of position.
      while (last_key(from) < key0) ++from;
      const int64_t to = std::min(last, last_position(key0 + kKeys - 1));
      if (from > to) continue;
      load_keys(key0);
      key_block(key0, (from - first) * group, (to - from + 1) * group);
    }
    finish(y);
  }

 private:
  /// The first and the last key that a position sees, and the last position that sees a key.
  int64_t first_key(int64_t position) const { return spec_.first_key(position); }
  int64_t last_key(int64_t position) const { return last_keys_ ? last_keys_[position - first_] : position; }
  int64_t last_position(int64_t key) const {
    const int64_t windowed = spec_.window > 0 ? key + spec_.window - 1 : std::numeric_limits<int64_t>::max();
    return spec_.chunk > 0 ? std::min(windowed, (key / spec_.chunk + 1) * spec_.chunk - 1) : windowed;
  }

  /// The keys from key0 on that the picker of this head has picked for a position of the task.
  uint64_t picked_word(int64_t position, int64_t key0) const {
    const int64_t pickers = spec_.picked.dim(1), picker = kv_head_ / (h_.n_kv_heads / pickers);
    return picked_[(position * pickers + picker) * spec_.picked.dim(2) + key0 / kKeys];
  }

  /// Of the task's row r, in [positions, n_heads].
  int64_t head_row(int64_t r) const { return r / h_.group() * h_.n_heads + kv_head_ * h_.group() + r % h_.group(); }

  float sink(int64_t r) const { return spec_.sinks.as<float>()[head_row(r) % h_.n_heads]; }

  void load_keys(int64_t key0) {
    const auto row = [&](int64_t j) { return (key0 + j) * h_.n_kv_heads + kv_head_; };
    products_.load_keys({sequence_.key + row(0) * h_.key_dim, sequence_.value + row(0) * h_.value_dim,
                         h_.n_kv_heads * h_.key_dim, h_.n_kv_heads * h_.value_dim,
                         std::min(kKeys, sequence_.n - key0)});
    for (int64_t j = kKeys; j < std::min(2 * kKeys, sequence_.n - key0); ++j) {  // rows lie far apart: fetch the next
      prefetch(sequence_.key + row(j) * h_.key_dim, h_.key_dim);
      prefetch(sequence_.value + row(j) * h_.value_dim, h_.value_dim);
    }
  }

  void key_block(int64_t key0, int64_t row0, int64_t n_rows) {
    products_.multiply_keys(row0, n_rows);
    const bool capped = spec_.softcap > 0.0f;
    if (capped) products_.cap(row0, n_rows, spec_.scale, spec_.softcap);
    const SoftmaxForm form{capped ? 1.0f : spec_.scale, spec_.probabilities.factor};
    for (int64_t r = row0; r < row0 + n_rows; ++r) {
      const int64_t position = first_ + r / h_.group();
      uint64_t seen = seen_keys(first_key(position) - key0, last_key(position) - key0 + 1);
      if (picked_) seen &= picked_word(r / h_.group(), key0);
      if (seen == 0) {
        products_.clear(r);
        continue;
      }
      const float factor = products_.softmax(r, seen, form, rows_[static_cast<size_t>(r)]);
      if (factor != 1.0f) rescale(output_row(r), factor);
    }
    products_.add_values(row0, n_rows, output_row(row0));
  }

  void rescale(float* output, float factor) const {
    for (int64_t i = 0; i < h_.value_dim; i += kLanes) store8(output + i, load8(output + i) * factor);
  }

  void finish(T* y) {
    for (int64_t r = 0; r < n_rows_ && spec_.sinks && spec_.probabilities.sinks_last; ++r) {
      RowState& row = rows_[static_cast<size_t>(r)];
      row.total += exp(splat(sink(r) - row.maximum))[0];
    }
    for (int64_t r = 0; r < n_rows_; ++r)
      for (int64_t i = 0; i < h_.value_dim; i += kLanes)
        store(y + head_row(r) * h_.value_dim + i, load8(output_row(r) + i) / rows_[static_cast<size_t>(r)].total,
              h_.value_dim - i);
  }

  float* output_row(int64_t r) const { return output_ + r * products_.output_row(); }

  const Heads& h_;
  const AttentionSpec& spec_;
  const Sequence<T>& sequence_;
  int64_t kv_head_, n_rows_;
  int64_t first_ = 0;                   // position of row 0
  const int32_t* last_keys_ = nullptr;  // from that position on
  const uint64_t* picked_ = nullptr;    // likewise
  Products products_;
  float* output_;  // [n_rows, output_row]
  std::vector<RowState> rows_;
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
  if (v) grow(rows.value, v);
}

void append(Ops& ops, KvRows& rows, const Span& span, const Tensor& k, const Tensor& v) {
  reserve(ops, rows, span.n_tokens, k, v);
  const auto copy = [&](const Owned& to, const Tensor& from) {
    const Tensor source = from.rows(span.row, span.n_tokens);
    if (source.bytes() > 0) std::memcpy(to.view.rows(rows.n_tokens, span.n_tokens).data, source.data, source.bytes());
  };
  copy(rows.key, k);
  if (v) copy(rows.value, v);
  rows.n_tokens += span.n_tokens;
}

}  // namespace

Tensor CpuBackend::do_attention(const Tensor& q, const Tensor& k, const Tensor& v, std::span<const Span> spans,
                                std::span<KvRows* const> rows, const AttentionSpec& spec) {
  std::vector<KeysAndValues> sequences;
  for (size_t s = 0; s < spans.size(); ++s) {
    const Span& span = spans[s];
    if (rows[s]) append(*this, *rows[s], span, k, v);
    sequences.push_back(
        rows[s] ? KeysAndValues{rows[s]->key, rows[s]->value, rows[s]->n_tokens}
                : KeysAndValues{k.rows(span.row, span.n_tokens), v.rows(span.row, span.n_tokens), span.n_tokens});
  }
  return attend(q, spans, sequences, {k.dim(1), v.dim(2)}, spec);
}

Tensor CpuBackend::do_attend_kept(const Tensor& q, std::span<const Span> spans, std::span<const KvRows* const> rows,
                                  const AttentionSpec& spec) {
  std::vector<KeysAndValues> sequences;
  for (const KvRows* kept : rows) sequences.push_back({kept->key, kept->value, kept->n_tokens});
  if (rows.empty()) return activation({q.dim(0), 0});
  return attend(q, spans, sequences, {rows[0]->key.view.dim(1), rows[0]->value.view.dim(2)}, spec);
}

void CpuBackend::do_keep_rows(const Tensor& k, const Tensor& v, std::span<const Span> spans,
                              std::span<KvRows* const> rows) {
  for (size_t s = 0; s < spans.size(); ++s)
    if (rows[s]) append(*this, *rows[s], spans[s], k, v);
}

Tensor CpuBackend::attend(const Tensor& q, std::span<const Span> spans, std::span<const KeysAndValues> sequences,
                          const KeyValueHeads& kv, const AttentionSpec& spec) {
  const Heads heads{q.dim(1), kv.n_heads, q.dim(2), kv.value_dim};
  const Tensor y = activation({q.dim(0), heads.n_heads * heads.value_dim});
  struct Task {
    size_t span;
    int64_t kv_head, begin, end;  // positions
  };
  std::vector<Task> tasks;
  const int64_t block = std::clamp<int64_t>(kTargetRows / heads.group(), 16, 128);
  for (size_t s = 0; s < spans.size(); ++s) {
    const int64_t end = spans[s].first_position + spans[s].n_tokens;
    for (int64_t at = spans[s].first_position; at < end; at = (at / block + 1) * block)
      for (int64_t head = 0; head < heads.n_kv_heads; ++head)
        tasks.push_back({s, head, at, std::min(end, (at / block + 1) * block)});
  }
  // The longest tasks first: those that end a batch should be short.
  std::stable_sort(tasks.begin(), tasks.end(), [](const Task& a, const Task& b) { return a.begin > b.begin; });

  const auto run = [&]<class T, class Products>() {
    parallel(static_cast<int64_t>(tasks.size()), [&](int64_t i, Arena& scratch) {
      const Task& task = tasks[static_cast<size_t>(i)];
      const Span& span = spans[task.span];
      const KeysAndValues& from = sequences[task.span];
      const Sequence<T> sequence{from.key.as<T>(), from.value.as<T>(), from.n_tokens};
      const int64_t row = span.row + task.begin - span.first_position;
      AttentionTask<T, Products>(heads, spec, sequence, task.kv_head, task.end - task.begin, scratch)
          .run(q.as<T>() + row * heads.n_heads * heads.key_dim, y.as<T>() + row * heads.n_heads * heads.value_dim,
               task.begin, spec.last_keys.empty() ? nullptr : spec.last_keys.data() + row,
               spec.picked ? spec.picked.rows(row, 1).as<uint64_t>() : nullptr);
    });
  };
#ifdef KVCAL_AVX512_BF16
  if (pairs_ && q.dtype == DType::BF16 && spec.probabilities.factor == 0.0f) {
#ifdef KVCAL_AMX
    if (tiles_) {
      run.template operator()<bf16, PairProducts<tile_gemm>>();
      return y;
    }
#endif
    run.template operator()<bf16, PairProducts<pair_gemm>>();
    return y;
  }
#endif
  visit_activation(q.dtype, [&](auto tag) { run.template operator()<decltype(tag), WideProducts<decltype(tag)>>(); });
  return y;
}

}  // namespace kvcal::cpu
