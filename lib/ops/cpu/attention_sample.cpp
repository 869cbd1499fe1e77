// Attention of some query rows with the cache as it is and with its keys, or its values, rounded at rungs of a ladder:
// one walk over the key blocks, with an online softmax for each rung.
//
// With l, l' the logits, p the probabilities and Z, Z' the sums: KL(p, p') = Σ p (l - l') + log Z' - log Z. The change
// of the output comes from p (v' - v), whose factors are exact, so nothing cancels.
//
// Most rungs agree: in E4M3 a block whose values are neither clipped nor subnormal is rounded alike at all of them.
// What agrees is decided from the block alone (agrees()), not from the rows that meet it, so that a row's figures
// depend on its own sequence only.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/cpu/attention_products.h"
#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/math.h"

namespace kvcal::cpu {
namespace {

/// Sampled positions of a task: what rounding a block costs is shared by its rows, but 128 heads of one key-value head
/// (MLA) would take a hundred megabytes for each thread, and leave most threads without a task.
constexpr int64_t kMostPositions = 32, kMostRows = 512;
int64_t positions_of_task(int64_t group) { return std::clamp<int64_t>(kMostRows / group, 1, kMostPositions); }
constexpr float kInfinity = std::numeric_limits<float>::infinity();

inline F32x8 magnitude(F32x8 x) { return std::bit_cast<F32x8>(std::bit_cast<U32x8>(x) & 0x7FFFFFFFu); }

/// scale · E4M3(x / scale), saturating; the scale is a power of two.
inline F32x8 through_e4m3(F32x8 x, float scale, float inverse) {
  constexpr float kMax = static_cast<float>(kE4m3Max),
                  kSteps = 0x1.8p14f;  // whose last bit is 2^-9, the subnormals' step
  const F32x8 y = x * inverse, size = magnitude(y);
  const U32x8 bits = std::bit_cast<U32x8>(size);
  const F32x8 normal = std::bit_cast<F32x8>((bits + 0x7FFFFu + ((bits >> 20) & 1u)) & ~0xFFFFFu);
  F32x8 r = size < 0x1p-6f ? (size + kSteps) - kSteps : normal;
  r = r > kMax ? splat(kMax) : r;
  const U32x8 sign = std::bit_cast<U32x8>(y) & 0x80000000u;
  return std::bit_cast<F32x8>(std::bit_cast<U32x8>(r) | sign) * scale;
}

/// 64 rows of one head, widened; rows beyond `n` and columns beyond `width` are zeros.
struct Rows64 {
  float* data;  // [kKeys, stride]
  int64_t stride, width, n;
  float* row(int64_t j) const { return data + j * stride; }
};

float absmax_of(const Rows64& x) {
  F32x8 top{};
  for (int64_t j = 0; j < x.n; ++j)
    for (int64_t c = 0; c < x.width; c += kLanes) top = larger(magnitude(load8(x.row(j) + c)), top);
  return largest(top);
}

void round_rows(const Rows64& x, int rung, const Rows64& to) {
  const float scale = scale_of_rung(rung), inverse = 1.0f / scale;
  for (int64_t j = 0; j < kKeys; ++j)
    for (int64_t c = 0; c < x.width; c += kLanes)
      store8(to.row(j) + c, through_e4m3(load8(x.row(j) + c), scale, inverse));
}

/// Whether two roundings of a block may stand for each other: in each channel and each token at most one value in 16
/// differs by more than 1/32 of itself (the largest rounding error is 1/16), and none of those by more than 1/64 of the
/// largest value of its channel and of its token. So small tokens and small channels count as much as large ones.
class Agreement {
 public:
  explicit Agreement(int64_t width) : channel_(static_cast<size_t>(row_stride(width))), counts_(channel_.size()) {}

  /// Once for a block.
  void measure(const Rows64& x) {
    std::fill(channel_.begin(), channel_.end(), 0.0f);
    for (int64_t j = 0; j < x.n; ++j) {
      F32x8 top{};
      for (int64_t c = 0; c < x.width; c += kLanes) {
        const F32x8 size = magnitude(load8(x.row(j) + c));
        top = larger(size, top);
        store8(channel_.data() + c, larger(size, load8(channel_.data() + c)));
      }
      token_[j] = largest(top);
    }
  }

  bool agrees(const Rows64& x, const Rows64& a, const Rows64& b) {
    std::fill(counts_.begin(), counts_.end(), 0.0f);
    constexpr float kOwn = 0x1p-5f, kShare = 0x1p-6f, kMostDiffering = 1.0f / 16;
    for (int64_t j = 0; j < x.n; ++j) {
      F32x8 n{}, large{};
      const F32x8 token = splat(token_[j] * kShare);
      for (int64_t c = 0; c < x.width; c += kLanes) {
        const F32x8 change = magnitude(load8(a.row(j) + c) - load8(b.row(j) + c));
        const F32x8 channel = load8(channel_.data() + c) * kShare, least = channel < token ? channel : token;
        const F32x8 differs = change > magnitude(load8(x.row(j) + c)) * kOwn ? splat(1.0f) : F32x8{};
        n += differs;
        large += change > least ? differs : F32x8{};
        store8(counts_.data() + c, load8(counts_.data() + c) + differs);
      }
      if (sum(large) > 0 || sum(n) > kMostDiffering * static_cast<float>(x.width)) return false;
    }
    const float most = kMostDiffering * static_cast<float>(x.n);
    return std::all_of(counts_.begin(), counts_.end(), [&](float count) { return count <= most; });
  }

 private:
  std::vector<float> channel_, counts_;
  float token_[kKeys] = {};
};

/// The roundings of a block that differ, and which of them stands for each rung.
class Ladder {
 public:
  Ladder(int64_t width, int64_t stride, std::vector<int> rungs, bool share, Arena& scratch)
      : rungs_(std::move(rungs)), share_(share), agreement_(width), of_rung_(rungs_.size()) {
    const size_t most = rungs_.size() + 1;
    for (size_t i = 0; i < most; ++i) {
      float* data = scratch.allocate({kKeys * stride}, DType::F32).as<float>();
      std::fill_n(data, kKeys * stride, 0.0f);
      buffers_.push_back({data, stride, width, kKeys});
    }
  }

  void round(const Rows64& x) {
    n_used_ = 0;
    if (share_) {
      agreement_.measure(x);
      add(x, lowest_rung(absmax_of(x)));
    }
    for (size_t i = 0; i < rungs_.size(); ++i) {
      if (share_ && rungs_[i] == base_) {
        of_rung_[i] = 0;
        continue;
      }
      const size_t slot = n_used_;
      add(x, rungs_[i]);
      const bool shared = share_ && agreement_.agrees(x, buffers_[slot], buffers_[0]);
      if (shared) --n_used_;
      of_rung_[i] = shared ? 0 : slot;
    }
    needed_.assign(n_used_, false);
    for (const size_t slot : of_rung_) needed_[slot] = true;
  }

  const std::vector<int>& rungs() const { return rungs_; }
  size_t n_different() const { return n_used_; }
  bool needed(size_t i) const { return needed_[i]; }
  const Rows64& different(size_t i) const { return buffers_[i]; }
  size_t of_rung(size_t i) const { return of_rung_[i]; }

 private:
  void add(const Rows64& x, int rung) {
    if (n_used_ == 0) base_ = rung;
    round_rows(x, rung, buffers_[n_used_++]);
  }

  std::vector<int> rungs_;
  bool share_;
  Agreement agreement_;
  std::vector<Rows64> buffers_;
  std::vector<size_t> of_rung_;
  std::vector<bool> needed_;
  size_t n_used_ = 0;
  int base_ = 0;
};

struct Shape4 {
  int64_t n_heads, n_kv_heads, key_dim, value_dim;
  int64_t group() const { return n_heads / n_kv_heads; }
};

/// A sampled row: its place in the request, its row in the batch, and the keys it sees.
struct SampledRow {
  int64_t index, row, position, first_key, last_key;
  int key_rung, value_rung;  // the lowest
};

std::vector<int> rungs_of(std::span<const SampledRow> rows, int SampledRow::*lowest) {
  std::vector<int> all = {kRungOfOne};
  for (const SampledRow& row : rows)
    for (int i = 0; i < kSampleRungs - 1; ++i) all.push_back(row.*lowest + i);
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

/// Log of a sum of exponentials, block by block.
struct LogSum {
  float maximum = -kInfinity, total = 0;
  /// A block with the given maximum and sum of exponentials below it.
  void add(float block_maximum, float block_total) {
    if (block_maximum <= maximum) {
      total += block_total * exp(splat(block_maximum - maximum))[0];
      return;
    }
    total = total * exp(splat(maximum - block_maximum))[0] + block_total;
    maximum = block_maximum;
  }
  double value() const { return static_cast<double>(maximum) + portable_log(static_cast<double>(total)); }
};

/// One (span, key-value head, up to positions_of_task() sampled rows).
template <class T>
class SampleTask {
 public:
  struct Input {
    const T* q;  // [tokens, n_heads, key_dim]
    const T *key, *value;
    int64_t n;  // rows of the sequence
    const AttentionSpec& spec;
    const SampleRequest& request;
  };

  SampleTask(const Shape4& shape, const Input& in, int64_t kv_head, std::span<const SampledRow> rows, Arena& scratch)
      : h_(shape),
        in_(in),
        kv_head_(kv_head),
        rows_(rows),
        n_rows_(static_cast<int64_t>(rows.size()) * shape.group()),
        key_row_(row_stride(shape.key_dim)),
        value_row_(row_stride(shape.value_dim)),
        keys_(shape.key_dim, key_row_, rungs_of(rows, &SampledRow::key_rung), in.request.shares_rungs, scratch),
        values_(shape.value_dim, value_row_, rungs_of(rows, &SampledRow::value_rung), in.request.shares_rungs,
                scratch) {
    const auto floats = [&](int64_t n) {
      float* data = scratch.allocate({n}, DType::F32).template as<float>();
      std::fill_n(data, n, 0.0f);
      return data;
    };
    query_ = floats(n_rows_ * key_row_);
    block_keys_ = {floats(kKeys * key_row_), key_row_, h_.key_dim, 0};
    block_values_ = {floats(kKeys * value_row_), value_row_, h_.value_dim, 0};
    transposed_ = floats(h_.key_dim * kLogitsRow);
    logits_ = floats(n_rows_ * kLogitsRow);
    rounded_logits_ = floats(n_rows_ * kLogitsRow);
    probabilities_ = floats(n_rows_ * kLogitsRow);
    product_ = floats(n_rows_ * value_row_);
    output_ = floats(n_rows_ * value_row_);
    for (size_t i = 0; i < values_.rungs().size(); ++i) changes_.push_back(floats(n_rows_ * value_row_));
    exact_.resize(static_cast<size_t>(n_rows_));
    rounded_.resize(keys_.rungs().size() * exact_.size());
    moved_.resize(rounded_.size());
  }

  void run(float* figures) {
    for (int64_t r = 0; r < n_rows_; ++r) {
      copy_wide(in_.q + (rows_[pos(r)].row * h_.n_heads + head(r)) * h_.key_dim, query_ + r * key_row_, h_.key_dim);
      if (!in_.spec.sinks) continue;
      const LogSum sink{in_.spec.sinks.template as<float>()[head(r)],
                        1.0f};  // a first key without a value, rounded never
      exact_[static_cast<size_t>(r)] = sink;
      for (size_t i = 0; i < keys_.rungs().size(); ++i) rounded(i, r) = sink;
    }
    const int64_t last = std::max_element(rows_.begin(), rows_.end(), [](const auto& a, const auto& b) {
                           return a.last_key < b.last_key;
                         })->last_key;
    for (int64_t key0 = rows_[0].first_key / kKeys * kKeys; key0 <= last; key0 += kKeys) {
      size_t from = 0, to = rows_.size();  // rows that see a key of this block
      while (from < to && rows_[from].last_key < key0) ++from;
      while (to > from && rows_[to - 1].first_key >= key0 + kKeys) --to;
      if (from < to) block(key0, static_cast<int64_t>(from) * h_.group(), static_cast<int64_t>(to - from) * h_.group());
    }
    for (int64_t r = 0; r < n_rows_; ++r)
      finish(r, figures + (rows_[pos(r)].index * h_.n_heads + head(r)) * kSampleFigures);
  }

 private:
  size_t pos(int64_t r) const { return static_cast<size_t>(r / h_.group()); }
  int64_t head(int64_t r) const { return kv_head_ * h_.group() + r % h_.group(); }
  LogSum& rounded(size_t rung, int64_t r) { return rounded_[rung * exact_.size() + static_cast<size_t>(r)]; }
  float& moved(size_t rung, int64_t r) { return moved_[rung * exact_.size() + static_cast<size_t>(r)]; }

  void load(int64_t key0, const T* from, int64_t width, Rows64& to) const {
    const int64_t n = std::min(kKeys, in_.n - key0);
    for (int64_t j = 0; j < n; ++j) copy_wide(from + ((key0 + j) * h_.n_kv_heads + kv_head_) * width, to.row(j), width);
    if (n < kKeys) std::fill_n(to.row(n), (kKeys - n) * to.stride, 0.0f);
    to.n = n;
  }

  void block(int64_t key0, int64_t row0, int64_t n) {
    load(key0, in_.key, h_.key_dim, block_keys_);
    load(key0, in_.value, h_.value_dim, block_values_);
    multiply(block_keys_, key0, row0, n, logits_);
    for (int64_t r = row0; r < row0 + n; ++r) weigh(r);
    small_gemm(n, h_.value_dim, kKeys, {probabilities_ + row0 * kLogitsRow, kLogitsRow}, block_values_.data, value_row_,
               output_ + row0 * value_row_, value_row_, true);
    keys_.round(block_keys_);
    for (size_t i = 0; i < keys_.n_different(); ++i)
      if (keys_.needed(i)) try_keys(i, key0, row0, n);
    values_.round(block_values_);
    for (size_t i = 0; i < values_.n_different(); ++i)
      if (values_.needed(i)) try_values(i, row0, n);
  }

  /// Scaled, capped logits; -inf where the row does not see the key.
  void multiply(const Rows64& keys, int64_t key0, int64_t row0, int64_t n, float* logits) {
    transpose(keys.data, key_row_, kKeys, h_.key_dim, transposed_, kLogitsRow);
    small_gemm(n, kKeys, h_.key_dim, {query_ + row0 * key_row_, key_row_}, transposed_, kLogitsRow,
               logits + row0 * kLogitsRow, kLogitsRow, false);
    const bool capped = in_.spec.softcap > 0.0f;
    if (capped) cap_logits(logits + row0 * kLogitsRow, n, in_.spec.scale, in_.spec.softcap);
    const float scale = capped ? 1.0f : in_.spec.scale;
    constexpr I32x8 kIndex = {0, 1, 2, 3, 4, 5, 6, 7};
    for (int64_t r = row0; r < row0 + n; ++r) {
      const auto first = static_cast<int32_t>(std::max<int64_t>(rows_[pos(r)].first_key - key0, 0));
      const auto last = static_cast<int32_t>(std::min(rows_[pos(r)].last_key - key0, kKeys - 1));
      float* l = logits + r * kLogitsRow;
      for (int32_t j = 0; j < kKeys; j += kLanes) {
        const I32x8 at = kIndex + j;
        store8(l + j, (at >= first) & (at <= last) ? load8(l + j) * scale : splat(-kInfinity));
      }
    }
  }

  /// Probabilities of row r below its new maximum; what was summed before shrinks with them.
  void weigh(int64_t r) {
    const float* l = logits_ + r * kLogitsRow;
    F32x8 top = splat(-kInfinity);
    for (int64_t j = 0; j < kKeys; j += kLanes) top = larger(load8(l + j), top);
    LogSum& state = exact_[static_cast<size_t>(r)];
    const float next = std::max(state.maximum, largest(top));
    if (next == -kInfinity) {  // sees nothing here, and nothing before
      std::fill_n(probabilities_ + r * kLogitsRow, kKeys, 0.0f);
      return;
    }
    if (next != state.maximum) rescale(r, exp(splat(state.maximum - next))[0]);
    state.maximum = next;
    F32x8 total{};
    for (int64_t j = 0; j < kKeys; j += kLanes) {
      const F32x8 p = exp(load8(l + j) - next);
      store8(probabilities_ + r * kLogitsRow + j, p);
      total += p;
    }
    state.total += sum(total);
  }

  void rescale(int64_t r, float factor) {
    exact_[static_cast<size_t>(r)].total *= factor;
    for (size_t i = 0; i < keys_.rungs().size(); ++i) moved(i, r) *= factor;
    scale_row(output_ + r * value_row_, factor);
    for (float* change : changes_) scale_row(change + r * value_row_, factor);
  }

  void scale_row(float* row, float factor) const {
    for (int64_t c = 0; c < h_.value_dim; c += kLanes) store8(row + c, load8(row + c) * factor);
  }

  /// The i-th of the roundings that differ, for all rungs it stands for.
  void try_keys(size_t i, int64_t key0, int64_t row0, int64_t n) {
    multiply(keys_.different(i), key0, row0, n, rounded_logits_);
    for (int64_t r = row0; r < row0 + n; ++r) {
      const float *l = logits_ + r * kLogitsRow, *l2 = rounded_logits_ + r * kLogitsRow;
      F32x8 top = splat(-kInfinity);
      for (int64_t j = 0; j < kKeys; j += kLanes) top = larger(load8(l2 + j), top);
      const float maximum = largest(top);
      if (maximum == -kInfinity) continue;
      F32x8 total{}, moves{};
      for (int64_t j = 0; j < kKeys; j += kLanes) {
        const F32x8 a = load8(l + j), b = load8(l2 + j);
        total += exp(b - maximum);
        moves += a == -kInfinity ? F32x8{} : load8(probabilities_ + r * kLogitsRow + j) * (a - b);
      }
      for (size_t rung = 0; rung < keys_.rungs().size(); ++rung) {
        if (keys_.of_rung(rung) != i) continue;
        rounded(rung, r).add(maximum, sum(total));
        moved(rung, r) += sum(moves);
      }
    }
  }

  void try_values(size_t i, int64_t row0, int64_t n) {
    const Rows64& change = values_.different(i);  // becomes v' - v
    for (int64_t j = 0; j < kKeys; ++j)
      for (int64_t c = 0; c < h_.value_dim; c += kLanes)
        store8(change.row(j) + c, load8(change.row(j) + c) - load8(block_values_.row(j) + c));
    small_gemm(n, h_.value_dim, kKeys, {probabilities_ + row0 * kLogitsRow, kLogitsRow}, change.data, value_row_,
               product_ + row0 * value_row_, value_row_, false);
    for (size_t rung = 0; rung < changes_.size(); ++rung) {
      if (values_.of_rung(rung) != i) continue;
      for (int64_t r = row0; r < row0 + n; ++r) {
        float *sum = changes_[rung] + r * value_row_, *part = product_ + r * value_row_;
        for (int64_t c = 0; c < h_.value_dim; c += kLanes) store8(sum + c, load8(sum + c) + load8(part + c));
      }
    }
  }

  /// |x / total|_w² of a row.
  float weighted_square(const float* x, int64_t r) const {
    const float* norms = in_.request.column_norms.template as<float>() + head(r) * h_.value_dim;
    const float inverse = 1.0f / exact_[static_cast<size_t>(r)].total;
    F32x8 squares{};
    for (int64_t c = 0; c < h_.value_dim; c += kLanes) {
      const F32x8 y = cpu::load(x + c, h_.value_dim - c) * inverse * cpu::load(norms + c, h_.value_dim - c);
      squares += y * y;
    }
    return sum(squares);
  }

  void finish(int64_t r, float* out) {
    const SampledRow& row = rows_[pos(r)];
    const LogSum& exact = exact_[static_cast<size_t>(r)];
    const auto at = [](const std::vector<int>& rungs, int lowest, int i) {
      const int rung = i == kSampleRungs - 1 ? kRungOfOne : lowest + i;
      return static_cast<size_t>(std::lower_bound(rungs.begin(), rungs.end(), rung) - rungs.begin());
    };
    out[kFigureOutput] = weighted_square(output_ + r * value_row_, r);
    for (int i = 0; i < kSampleRungs; ++i) {
      const size_t k = at(keys_.rungs(), row.key_rung, i), v = at(values_.rungs(), row.value_rung, i);
      const double divergence =
          static_cast<double>(moved(k, r) / exact.total) + (rounded(k, r).value() - exact.value());
      out[kFigureDivergence + i] = static_cast<float>(std::max(divergence, 0.0));
      out[kFigureChange + i] = weighted_square(changes_[v] + r * value_row_, r);
    }
  }

  const Shape4& h_;
  Input in_;
  int64_t kv_head_;
  std::span<const SampledRow> rows_;
  int64_t n_rows_, key_row_, value_row_;
  Ladder keys_, values_;
  float* query_;                         // [n_rows, key_row]
  Rows64 block_keys_, block_values_;     // [kKeys, key_row], [kKeys, value_row]
  float* transposed_;                    // [key_dim, kLogitsRow]
  float *logits_, *rounded_logits_;      // [n_rows, kLogitsRow]
  float* probabilities_;                 // [n_rows, kLogitsRow], below the row's maximum so far
  float* product_;                       // [n_rows, value_row]
  float* output_;                        // [n_rows, value_row]: Σ p v
  std::vector<float*> changes_;          // by rung of values: Σ p (v' - v)
  std::vector<LogSum> exact_, rounded_;  // [n_rows], [rungs of keys, n_rows]
  std::vector<float> moved_;             // [rungs of keys, n_rows]: Σ p (l - l')
};

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

}  // namespace

AttentionSample CpuBackend::do_sample_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                                std::span<const Span> spans, std::span<const KvRows* const> kept,
                                                const AttentionSpec& spec, const SampleRequest& request) {
  const auto n_sampled = static_cast<int64_t>(request.rows.size());
  AttentionSample result{allocate({n_sampled, 2}, DType::I32),
                         allocate({n_sampled, q.dim(1), kSampleFigures}, DType::F32)};
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

  const auto run = [&]<class T>() {
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
                           0};
        sampled.key_rung = lowest_rung(keys[static_cast<size_t>(sampled.last_key)]);
        sampled.value_rung = lowest_rung(values[static_cast<size_t>(sampled.last_key)]);
        rungs[2 * next] = sampled.key_rung;
        rungs[2 * next + 1] = sampled.value_rung;
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
      const typename SampleTask<T>::Input in{
          q.as<T>(), sequence.rows.key.as<T>(), sequence.rows.value.as<T>(), sequence.rows.n_tokens, spec, request};
      SampleTask<T>(shape, in, task.kv_head, std::span(sequence.sampled).subspan(task.first, task.n), scratch)
          .run(figures);
    });
  };
  visit_activation(q.dtype, [&](auto tag) { run.template operator()<decltype(tag)>(); });
  return result;
}

}  // namespace kvcal::cpu
