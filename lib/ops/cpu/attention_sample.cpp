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
  constexpr float kMax = 448.0f, kSteps = 0x1.8p14f;  // whose last bit is 2^-9, the subnormals' step
  const F32x8 y = x * inverse, size = magnitude(y);
  const U32x8 bits = std::bit_cast<U32x8>(size);
  const F32x8 normal = std::bit_cast<F32x8>((bits + 0x7FFFFu + ((bits >> 20) & 1u)) & ~0xFFFFFu);
  F32x8 r = size < 0x1p-6f ? (size + kSteps) - kSteps : normal;
  r = r > kMax ? splat(kMax) : r;
  const U32x8 sign = std::bit_cast<U32x8>(y) & 0x80000000u;
  return std::bit_cast<F32x8>(std::bit_cast<U32x8>(r) | sign) * scale;
}

/// The same of -127 .. 127.
inline F32x8 through_int8(F32x8 x, float scale, float inverse) {
  constexpr float kMax = 127.0f, kWhole = 0x1.8p23f;
  F32x8 y = x * inverse;
  y = y > kMax ? splat(kMax) : y;
  y = y < -kMax ? splat(-kMax) : y;
  return ((y + kWhole) - kWhole) * scale;
}

/// n values, a multiple of 8.
void round_values(const float* from, float* to, int64_t n, int rung, SampleFormat format) {
  const float scale = scale_of_rung(rung), inverse = 1.0f / scale;
  if (format == SampleFormat::E4m3)
    for (int64_t c = 0; c < n; c += kLanes) store8(to + c, through_e4m3(load8(from + c), scale, inverse));
  else
    for (int64_t c = 0; c < n; c += kLanes) store8(to + c, through_int8(load8(from + c), scale, inverse));
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

void round_rows(const Rows64& x, int rung, SampleFormat format, const Rows64& to) {
  const int64_t n = (x.width + kLanes - 1) / kLanes * kLanes;
  for (int64_t j = 0; j < kKeys; ++j) round_values(x.row(j), to.row(j), n, rung, format);
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
  Ladder(int64_t width, int64_t stride, std::vector<int> rungs, const SampleRequest& request, Arena& scratch)
      : rungs_(std::move(rungs)),
        share_(request.shares_rungs),
        format_(request.format),
        agreement_(width),
        of_rung_(rungs_.size()) {
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
      add(x, lowest_rung(absmax_of(x), format_));
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
    round_rows(x, rung, format_, buffers_[n_used_++]);
  }

  std::vector<int> rungs_;
  bool share_;
  SampleFormat format_;
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
  int key_rung, value_rung, query_rung;  // the lowest that clip nothing
  bool tries_query;
};

std::vector<int> rungs_of(std::span<const SampledRow> rows, const RungLadder& ladder, int SampledRow::*lowest) {
  std::vector<int> all = {kRungOfOne};
  for (const SampledRow& row : rows)
    for (int i = 0; i < ladder.size(); ++i) all.push_back(ladder.rung(i, row.*lowest));
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
    int64_t n_figures;
  };

  SampleTask(const Shape4& shape, const Input& in, int64_t kv_head, std::span<const SampledRow> rows, Arena& scratch)
      : h_(shape),
        in_(in),
        kv_head_(kv_head),
        rows_(rows),
        n_rows_(static_cast<int64_t>(rows.size()) * shape.group()),
        key_row_(row_stride(shape.key_dim)),
        value_row_(row_stride(shape.value_dim)),
        keys_(shape.key_dim, key_row_, rungs_of(rows, in.request.cache(), &SampledRow::key_rung), in.request, scratch),
        values_(shape.value_dim, value_row_, rungs_of(rows, in.request.cache(), &SampledRow::value_rung), in.request,
                scratch) {
    const auto floats = [&](int64_t n) {
      float* data = scratch.allocate({n}, DType::F32).template as<float>();
      std::fill_n(data, n, 0.0f);
      return data;
    };
    query_ = floats(n_rows_ * key_row_);
    for (int64_t r = 0; r < n_rows_; ++r)
      copy_wide(in_.q + (rows_[pos(r)].row * h_.n_heads + head(r)) * h_.key_dim, query_ + r * key_row_, h_.key_dim);
    plan_query_trials();
    trial_query_ = floats(static_cast<int64_t>(trials_.size()) * key_row_);
    trial_logits_ = floats(static_cast<int64_t>(trials_.size()) * kLogitsRow);
    for (size_t t = 0; t < trials_.size(); ++t)
      round_values(query_ + trials_[t].row * key_row_, trial_query_ + static_cast<int64_t>(t) * key_row_,
                   padded(h_.key_dim), trials_[t].rung, in_.request.format);
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
    // A sink is a first key without a value, which is rounded never.
    const auto sink = [&](int64_t r) { return LogSum{in_.spec.sinks.template as<float>()[head(r)], 1.0f}; };
    for (int64_t r = 0; r < n_rows_ && in_.spec.sinks; ++r) {
      exact_[static_cast<size_t>(r)] = sink(r);
      for (size_t i = 0; i < keys_.rungs().size(); ++i) rounded(i, r) = sink(r);
    }
    for (QueryTrial& trial : trials_)
      if (in_.spec.sinks) trial.sum = sink(trial.row);
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
      finish(r, figures + (rows_[pos(r)].index * h_.n_heads + head(r)) * in_.n_figures);
  }

 private:
  /// A rounding of a row's query that differs from the others tried.
  struct QueryTrial {
    int64_t row;
    int rung;
    LogSum sum{};
    float moved = 0;  // Σ p (l - l')
  };

  static int64_t padded(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

  /// Which roundings of each query are tried, and which of them stands for each rung of its ladder.
  void plan_query_trials() {
    const RungLadder ladder = in_.request.query();
    const int64_t n = padded(h_.key_dim);
    std::vector<float> base(static_cast<size_t>(n)), other(base.size());
    for (int64_t r = 0; r < n_rows_; ++r) {
      const SampledRow& row = rows_[pos(r)];
      first_trial_.push_back(trials_.size());
      if (!row.tries_query) continue;
      const float* q = query_ + r * key_row_;
      const auto trial_of = [&](int rung) {
        for (size_t t = first_trial_.back(); t < trials_.size(); ++t)
          if (trials_[t].rung == rung) return t;
        round_values(q, other.data(), n, rung, in_.request.format);
        if (in_.request.shares_rungs && trials_.size() > first_trial_.back() && agree(q, base, other))
          return first_trial_.back();
        trials_.push_back({r, rung});
        return trials_.size() - 1;
      };
      round_values(q, base.data(), n, row.query_rung, in_.request.format);
      trial_of(row.query_rung);
      for (int i = 0; i < ladder.size(); ++i) trial_of_rung_.push_back(trial_of(ladder.rung(i, row.query_rung)));
    }
    first_trial_.push_back(trials_.size());
  }

  /// As Agreement, for one row.
  bool agree(const float* x, const std::vector<float>& a, const std::vector<float>& b) const {
    float top = 0, n_differing = 0;
    for (size_t c = 0; c < a.size(); ++c) top = std::max(top, std::fabs(x[c]));
    for (size_t c = 0; c < a.size(); ++c) {
      const float change = std::fabs(a[c] - b[c]);
      if (change <= std::fabs(x[c]) * 0x1p-5f) continue;
      if (change > top * 0x1p-6f) return false;
      ++n_differing;
    }
    return n_differing <= static_cast<float>(h_.key_dim) / 16;
  }

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
    try_queries(key0, row0, n);  // while the keys lie transposed
    small_gemm(n, h_.value_dim, kKeys, {probabilities_ + row0 * kLogitsRow, kLogitsRow}, block_values_.data, value_row_,
               output_ + row0 * value_row_, value_row_, true);
    keys_.round(block_keys_);
    for (size_t i = 0; i < keys_.n_different(); ++i)
      if (keys_.needed(i)) try_keys(i, key0, row0, n);
    values_.round(block_values_);
    for (size_t i = 0; i < values_.n_different(); ++i)
      if (values_.needed(i)) try_values(i, row0, n);
  }

  /// Logits of rows [row0, row0 + n) with rounded or exact keys.
  void multiply(const Rows64& keys, int64_t key0, int64_t row0, int64_t n, float* logits) {
    transpose(keys.data, key_row_, kKeys, h_.key_dim, transposed_, kLogitsRow);
    multiply(query_ + row0 * key_row_, n, logits + row0 * kLogitsRow);
    for (int64_t r = row0; r < row0 + n; ++r) mask(rows_[pos(r)], key0, logits + r * kLogitsRow);
  }

  /// Scaled, capped logits of n queries with the keys that lie transposed.
  void multiply(const float* queries, int64_t n, float* logits) {
    small_gemm(n, kKeys, h_.key_dim, {queries, key_row_}, transposed_, kLogitsRow, logits, kLogitsRow, false);
    if (in_.spec.softcap > 0.0f) cap_logits(logits, n, in_.spec.scale, in_.spec.softcap);
  }

  /// -inf where the row does not see the key.
  void mask(const SampledRow& row, int64_t key0, float* l) const {
    const float scale = in_.spec.softcap > 0.0f ? 1.0f : in_.spec.scale;
    constexpr I32x8 kIndex = {0, 1, 2, 3, 4, 5, 6, 7};
    const auto first = static_cast<int32_t>(std::max<int64_t>(row.first_key - key0, 0));
    const auto last = static_cast<int32_t>(std::min(row.last_key - key0, kKeys - 1));
    for (int32_t j = 0; j < kKeys; j += kLanes) {
      const I32x8 at = kIndex + j;
      store8(l + j, (at >= first) & (at <= last) ? load8(l + j) * scale : splat(-kInfinity));
    }
  }

  void try_queries(int64_t key0, int64_t row0, int64_t n) {
    const size_t begin = first_trial_[static_cast<size_t>(row0)], end = first_trial_[static_cast<size_t>(row0 + n)];
    if (begin == end) return;
    const auto at = static_cast<int64_t>(begin);
    multiply(trial_query_ + at * key_row_, static_cast<int64_t>(end - begin), trial_logits_ + at * kLogitsRow);
    for (size_t t = begin; t < end; ++t) {
      QueryTrial& trial = trials_[t];
      float* l2 = trial_logits_ + static_cast<int64_t>(t) * kLogitsRow;
      mask(rows_[pos(trial.row)], key0, l2);
      const Compared compared = compare(trial.row, l2);
      if (compared.maximum == -kInfinity) continue;
      trial.sum.add(compared.maximum, compared.total);
      trial.moved += compared.moved;
    }
  }

  /// Logits l2 of a block against the exact ones of row r.
  struct Compared {
    float maximum, total, moved;  // of l2; sum of exponentials below it; Σ p (l - l2)
  };
  Compared compare(int64_t r, const float* l2) const {
    const float* l = logits_ + r * kLogitsRow;
    F32x8 top = splat(-kInfinity);
    for (int64_t j = 0; j < kKeys; j += kLanes) top = larger(load8(l2 + j), top);
    const float maximum = largest(top);
    if (maximum == -kInfinity) return {maximum, 0, 0};
    F32x8 total{}, moves{};
    for (int64_t j = 0; j < kKeys; j += kLanes) {
      const F32x8 a = load8(l + j), b = load8(l2 + j);
      total += exp(b - maximum);
      moves += a == -kInfinity ? F32x8{} : load8(probabilities_ + r * kLogitsRow + j) * (a - b);
    }
    return {maximum, sum(total), sum(moves)};
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
    for (size_t t = first_trial_[static_cast<size_t>(r)]; t < first_trial_[static_cast<size_t>(r) + 1]; ++t)
      trials_[t].moved *= factor;
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
      const Compared compared = compare(r, rounded_logits_ + r * kLogitsRow);
      if (compared.maximum == -kInfinity) continue;
      for (size_t rung = 0; rung < keys_.rungs().size(); ++rung) {
        if (keys_.of_rung(rung) != i) continue;
        rounded(rung, r).add(compared.maximum, compared.total);
        moved(rung, r) += compared.moved;
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
    const SampleRequest& request = in_.request;
    const RungLadder ladder = request.cache();
    const auto at = [](const std::vector<int>& rungs, int rung) {
      return static_cast<size_t>(std::lower_bound(rungs.begin(), rungs.end(), rung) - rungs.begin());
    };
    const auto divergence = [&](float moved_by, const LogSum& to) {
      const double d = static_cast<double>(moved_by / exact.total) + (to.value() - exact.value());
      return static_cast<float>(std::max(d, 0.0));
    };
    out[request.output()] = weighted_square(output_ + r * value_row_, r);
    for (int i = 0; i < ladder.size(); ++i) {
      const size_t k = at(keys_.rungs(), ladder.rung(i, row.key_rung)),
                   v = at(values_.rungs(), ladder.rung(i, row.value_rung));
      out[request.key_divergence() + i] = divergence(moved(k, r), rounded(k, r));
      out[request.value_change() + i] = weighted_square(changes_[v] + r * value_row_, r);
    }
    const auto size = static_cast<size_t>(request.query().size());
    for (size_t i = 0; i < size && !request.tries_query.empty(); ++i) {
      float& figure = out[static_cast<size_t>(request.query_divergence()) + i];
      figure = -1;
      if (!row.tries_query) continue;
      const QueryTrial& trial = trials_[trial_of_rung_[queries_tried_ * size + i]];
      figure = divergence(trial.moved, trial.sum);
    }
    if (row.tries_query) ++queries_tried_;
  }

  const Shape4& h_;
  Input in_;
  int64_t kv_head_;
  std::span<const SampledRow> rows_;
  int64_t n_rows_, key_row_, value_row_;
  Ladder keys_, values_;
  float* query_;                         // [n_rows, key_row]
  std::vector<QueryTrial> trials_;       // in the order of rows
  std::vector<size_t> first_trial_;      // [n_rows + 1]
  std::vector<size_t> trial_of_rung_;    // [rows that try, rungs of the query's ladder]
  size_t queries_tried_ = 0;             // rows finished that try
  float *trial_query_, *trial_logits_;   // [trials, key_row], [trials, kLogitsRow]
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
  const bool has_queries = !request.tries_query.empty();
  const int64_t n_rungs = has_queries ? 3 : 2,
                n_figures = has_queries ? request.n_figures() : request.query_divergence();
  AttentionSample result{allocate({n_sampled, n_rungs}, DType::I32),
                         allocate({n_sampled, q.dim(1), n_figures}, DType::F32)};
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
                           0,
                           0,
                           has_queries && request.tries_query[next] != 0};
        const auto last_key = static_cast<size_t>(sampled.last_key);
        const int64_t width = q.dim(1) * q.dim(2);
        sampled.key_rung = lowest_rung(keys[last_key], request.format);
        sampled.value_rung = lowest_rung(values[last_key], request.format);
        sampled.query_rung = lowest_rung(running_absmax(q.as<T>() + row * width, 1, width)[0], request.format);
        int32_t* own = rungs + static_cast<int64_t>(next) * n_rungs;
        own[0] = sampled.key_rung;
        own[1] = sampled.value_rung;
        if (has_queries) own[2] = sampled.query_rung;
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
          q.as<T>(), sequence.rows.key.as<T>(), sequence.rows.value.as<T>(), sequence.rows.n_tokens, spec, request,
          n_figures};
      SampleTask<T>(shape, in, task.kv_head, std::span(sequence.sampled).subspan(task.first, task.n), scratch)
          .run(figures);
    });
  };
  visit_activation(q.dtype, [&](auto tag) { run.template operator()<decltype(tag)>(); });
  return result;
}

}  // namespace kvcal::cpu
