// One task of sampled attention: one walk over the key blocks of a sequence, with an online softmax for each rung.
//
// With l, l' the logits, p the probabilities and Z, Z' the sums: KL(p, p') = Σ p (l - l') + log Z' - log Z. The change
// of the output comes from p (v' - v), whose factors are exact, so nothing cancels.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/cpu/sample_products.h"
#include "ops/cpu/sample_queries.h"

namespace kvcal::cpu {

/// One (span, key-value head, up to positions_of_task() sampled rows).
template <class T, class Products>
class SampleTask {
  using Element = typename Products::Element;

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
        left_row_(Products::left_row(shape.key_dim)),
        value_row_(Products::result_row(shape.value_dim)),
        products_(shape.key_dim, shape.value_dim, scratch),
        trials_(in.request, shape.key_dim),
        keys_(tried(in.key, shape.key_dim, &SampledRow::key_rung)),
        values_(tried(in.value, shape.value_dim, &SampledRow::value_rung)) {
    load_queries(scratch);
    load_trials(scratch);
    make_room(scratch);
    thorough_before_ = {0};
    for (int64_t r = 0; r < n_rows_; ++r) thorough_before_.push_back(thorough_before_.back() + rows_[pos(r)].thorough);
    for (size_t i = 0; i < keys_.size(); ++i)
      shifts_.emplace_back(thorough_before_.back(), value_row_, h_.value_dim, scratch);
  }

  void run(float* figures) {
    // A sink is a first key without a value, which is rounded never.
    const auto sink = [&](int64_t r) { return LogSum{in_.spec.sinks.template as<float>()[head(r)], 1.0f}; };
    for (int64_t r = 0; r < n_rows_ && in_.spec.sinks; ++r) {
      exact_[static_cast<size_t>(r)] = sink(r);
      for (size_t i = 0; i < keys_.size(); ++i) rounded(i, r) = sink(r);
    }
    for (QueryTrial& trial : trials_.all())
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
  static constexpr int64_t kWeightsRow = Products::left_row(kKeys);

  void load_queries(Arena& scratch) {
    wide_query_ = zeros(n_rows_ * key_row_, scratch);
    query_ = room_for<Element>(n_rows_ * left_row_, scratch);
    for (int64_t r = 0; r < n_rows_; ++r) {
      float* wide = wide_query_ + r * key_row_;
      copy_wide(in_.q + (rows_[pos(r)].row * h_.n_heads + head(r)) * h_.key_dim, wide, h_.key_dim);
      products_.load_left(wide, h_.key_dim, query_ + r * left_row_);
      trials_.add_row(is_thorough(r) ? wide : nullptr, rows_[pos(r)].query_rung);
    }
  }

  /// Rounded queries.
  void load_trials(Arena& scratch) {
    const auto n_trials = static_cast<int64_t>(trials_.size());
    trial_query_ = room_for<Element>(n_trials * left_row_, scratch);
    trial_logits_ = zeros(n_trials * kLogitsRow, scratch);
    float* rounded_query = zeros(key_row_, scratch);
    for (size_t t = 0; t < trials_.size(); ++t) {
      round_values(wide_query_ + trials_[t].row * key_row_, rounded_query, QueryTrials::padded(h_.key_dim),
                   trials_[t].rung, in_.request.format);
      products_.load_left(rounded_query, h_.key_dim, trial_query_ + static_cast<int64_t>(t) * left_row_);
    }
  }

  /// For a block of keys and values, and for what is summed over blocks.
  void make_room(Arena& scratch) {
    const auto floats = [&](int64_t n) { return zeros(n, scratch); };
    for (Rows64* rows64 : {&block_keys_, &rounded_keys_}) *rows64 = {floats(kKeys * key_row_), key_row_, h_.key_dim, 0};
    for (Rows64* rows64 : {&block_values_, &changed_values_})
      *rows64 = {floats(kKeys * value_row_), value_row_, h_.value_dim, 0};
    logits_ = floats(n_rows_ * kLogitsRow);
    rounded_logits_ = floats(n_rows_ * kLogitsRow);
    probabilities_ = floats(n_rows_ * kLogitsRow);
    weights_ = room_for<Element>(n_rows_ * kWeightsRow, scratch);
    product_ = floats(n_rows_ * value_row_);
    output_ = floats(n_rows_ * value_row_);
    for (size_t i = 0; i < values_.size(); ++i) changes_.push_back(floats(n_rows_ * value_row_));
    total_before_.resize(static_cast<size_t>(n_rows_));
    exact_.resize(static_cast<size_t>(n_rows_));
    rounded_.resize(keys_.size() * exact_.size());
    moved_.resize(rounded_.size());
  }

  TriedRungs tried(const T* x, int64_t width, int SampledRow::*lowest) const {
    const HeadRows<T> head{x + kv_head_ * width, h_.n_kv_heads * width, width};
    return {rows_, in_.request.cache(), lowest, alike_rungs(head, rows_, in_.request, lowest)};
  }

  bool is_thorough(int64_t r) const { return rows_[pos(r)].thorough; }
  /// Rows above r that are thorough.
  int64_t thorough_before(int64_t r) const { return thorough_before_[static_cast<size_t>(r)]; }
  size_t pos(int64_t r) const { return static_cast<size_t>(r / h_.group()); }
  int64_t head(int64_t r) const { return kv_head_ * h_.group() + r % h_.group(); }
  /// Of the i-th trial of keys.
  LogSum& rounded(size_t i, int64_t r) { return rounded_[i * exact_.size() + static_cast<size_t>(r)]; }
  float& moved(size_t i, int64_t r) { return moved_[i * exact_.size() + static_cast<size_t>(r)]; }

  /// Of rows [row, row + n) those that a trial covers.
  struct Rows {
    int64_t row, n;
  };
  Rows covered(const TriedRungs::Trial& trial, const Rows& of) const {
    const int64_t first = std::max(of.row, static_cast<int64_t>(trial.first) * h_.group()),
                  end = std::min(of.row + of.n, static_cast<int64_t>(trial.last + 1) * h_.group());
    return {first, std::max<int64_t>(end - first, 0)};
  }

  void load(int64_t key0, const T* from, int64_t width, Rows64& to) const {
    const int64_t n = std::min(kKeys, in_.n - key0);
    for (int64_t j = 0; j < n; ++j) copy_wide(from + ((key0 + j) * h_.n_kv_heads + kv_head_) * width, to.row(j), width);
    if (n < kKeys) std::fill_n(to.row(n), (kKeys - n) * to.stride, 0.0f);
    to.n = n;
  }

  void block(int64_t key0, int64_t row0, int64_t n) {
    load(key0, in_.key, h_.key_dim, block_keys_);
    load(key0, in_.value, h_.value_dim, block_values_);
    products_.load_keys(block_keys_);
    multiply(query_ + row0 * left_row_, n, logits_ + row0 * kLogitsRow);
    for (int64_t r = row0; r < row0 + n; ++r) {
      mask(r, key0, logits_ + r * kLogitsRow);
      weigh(r);
    }
    try_queries(key0, row0, n);
    products_.load_values(block_values_);
    for (size_t i = 0; i < keys_.size(); ++i) try_keys(i, key0, covered(keys_[i], {row0, n}));
    load_weights(probabilities_ + row0 * kLogitsRow, n);
    products_.multiply_values(weights_, n, output_ + row0 * value_row_, true);
    for (size_t i = 0; i < values_.size(); ++i) try_values(i, row0, covered(values_[i], {row0, n}));
  }

  /// Scaled, capped logits of n queries with the keys that are loaded.
  void multiply(const Element* queries, int64_t n, float* logits) {
    products_.multiply_keys(queries, n, logits);
    if (in_.spec.softcap > 0.0f) cap_logits(logits, n, in_.spec.scale, in_.spec.softcap);
  }

  void load_weights(const float* rows, int64_t n) {
    for (int64_t r = 0; r < n; ++r) products_.load_left(rows + r * kLogitsRow, kKeys, weights_ + r * kWeightsRow);
  }

  /// Logits of a row with the keys from key0 on.
  void mask(int64_t r, int64_t key0, float* l) const {
    const uint64_t seen = keys_seen_by(rows_[pos(r)], key0, in_.spec.picked, kv_head_, h_.n_kv_heads);
    mask_logits(seen, in_.spec.softcap > 0.0f ? 1.0f : in_.spec.scale, l);
  }

  void try_queries(int64_t key0, int64_t row0, int64_t n) {
    const size_t begin = trials_.first(row0), end = trials_.first(row0 + n);
    if (begin == end) return;
    const auto at = static_cast<int64_t>(begin);
    multiply(trial_query_ + at * left_row_, static_cast<int64_t>(end - begin), trial_logits_ + at * kLogitsRow);
    for (size_t t = begin; t < end; ++t) {
      QueryTrial& trial = trials_[t];
      float* l2 = trial_logits_ + static_cast<int64_t>(t) * kLogitsRow;
      mask(trial.row, key0, l2);
      const Compared compared = compare(trial.row, l2);
      if (compared.maximum == -kInfinity) continue;
      trial.sum.add(compared.maximum, compared.total);
      trial.moved += compared.moved;
    }
  }

  Compared compare(int64_t r, const float* l2) const {
    return compare_logits(logits_ + r * kLogitsRow, probabilities_ + r * kLogitsRow, l2);
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
    total_before_[static_cast<size_t>(r)] = state.total;
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
    for (size_t t = trials_.first(r); t < trials_.first(r + 1); ++t) trials_[t].moved *= factor;
    scale_row(output_ + r * value_row_, factor);
    for (size_t i = 0; i < values_.size(); ++i)
      if (values_[i].covers(pos(r))) scale_row(changes_[i] + r * value_row_, factor);
    for (size_t i = 0; i < keys_.size(); ++i) {
      moved(i, r) *= factor;
      if (is_thorough(r) && keys_[i].covers(pos(r))) shifts_[i].rescale(thorough_before(r), factor);
    }
  }

  void scale_row(float* row, float factor) const {
    for (int64_t c = 0; c < h_.value_dim; c += kLanes) store8(row + c, load8(row + c) * factor);
  }

  void try_keys(size_t i, int64_t key0, const Rows& rows) {
    if (rows.n == 0) return;
    round_rows(block_keys_, keys_[i].rung, in_.request.format, rounded_keys_);
    products_.load_keys(rounded_keys_);
    multiply(query_ + rows.row * left_row_, rows.n, rounded_logits_ + rows.row * kLogitsRow);
    for (int64_t r = rows.row; r < rows.row + rows.n; ++r) {
      float* l2 = rounded_logits_ + r * kLogitsRow;
      mask(r, key0, l2);
      const Compared compared = compare(r, l2);
      if (compared.maximum == -kInfinity) continue;
      rounded(i, r).add(compared.maximum, compared.total);
      moved(i, r) += compared.moved;
    }
    shift_outputs(i, rows);
  }

  /// What the rounded logits of thorough rows do to their outputs, before the block is in the exact ones.
  void shift_outputs(size_t i, const Rows& rows) {
    const int64_t first = thorough_before(rows.row), n_thorough = thorough_before(rows.row + rows.n) - first;
    if (n_thorough == 0) return;
    std::vector<float> totals(static_cast<size_t>(n_thorough));
    const auto each = [&](auto f) {
      for (int64_t r = rows.row; r < rows.row + rows.n; ++r)
        if (is_thorough(r)) f(r, thorough_before(r) - first);
    };
    each([&](int64_t r, int64_t t) {
      const float offset = offset_at(i, r);
      totals[static_cast<size_t>(t)] = load_shift(r, offset, weights_ + t * kWeightsRow);
      shifts_[i].move_offset(first + t, offset, output_ + r * value_row_, total_before_[static_cast<size_t>(r)]);
    });
    products_.multiply_values(weights_, n_thorough, product_, false);
    each([&](int64_t, int64_t t) {
      shifts_[i].add(first + t, product_ + t * value_row_, totals[static_cast<size_t>(t)]);
    });
  }

  /// log Z' - log Z so far: what rounding adds to all logits alike is not felt, and would drown what is.
  float offset_at(size_t i, int64_t r) {
    const LogSum &exact = exact_[static_cast<size_t>(r)], &other = rounded(i, r);
    if (exact.maximum == -kInfinity || other.maximum == -kInfinity) return 0.0f;  // sees nothing so far
    return static_cast<float>(other.value() - exact.value());
  }

  /// p' e^-offset - p of a row's keys in this block -> a row of weights. Returns their sum.
  float load_shift(int64_t r, float offset, Element* to) const {
    const float *l2 = rounded_logits_ + r * kLogitsRow, *p = probabilities_ + r * kLogitsRow;
    const float maximum = exact_[static_cast<size_t>(r)].maximum;
    float shift[kKeys] = {};
    F32x8 total{};
    for (int64_t j = 0; j < kKeys && maximum > -kInfinity; j += kLanes) {
      const F32x8 moved_by = Products::weight(exp(load8(l2 + j) - maximum - offset) - load8(p + j));
      store8(shift + j, moved_by);
      total += moved_by;
    }
    products_.load_left(shift, kKeys, to);
    return sum(total);
  }

  void try_values(size_t i, int64_t row0, const Rows& rows) {
    if (rows.n == 0) return;
    const Rows64& change = changed_values_;  // v' - v
    round_rows(block_values_, values_[i].rung, in_.request.format, change);
    for (int64_t j = 0; j < kKeys; ++j)
      for (int64_t c = 0; c < h_.value_dim; c += kLanes)
        store8(change.row(j) + c, load8(change.row(j) + c) - load8(block_values_.row(j) + c));
    products_.load_values(change);
    products_.multiply_values(weights_ + (rows.row - row0) * kWeightsRow, rows.n, changes_[i] + rows.row * value_row_,
                              true);
  }

  /// |x / total|_w² of a row.
  float weighted_square(const float* x, int64_t r) const {
    const float inverse = 1.0f / exact_[static_cast<size_t>(r)].total;
    return square_of(h_.value_dim, norms_of(r),
                     [&](int64_t c) { return cpu::load(x + c, h_.value_dim - c) * inverse; });
  }

  const float* norms_of(int64_t r) const {
    return in_.request.column_norms.template as<float>() + head(r) * h_.value_dim;
  }

  /// |y' - y|_w², in the i-th trial of keys. With y = o / Z, and below the offset o' = o + do, Z' = Z + dZ:
  /// y' - y = (do - y dZ) / Z'.
  float key_change(size_t i, int64_t r) const {
    const int64_t at = thorough_before(r);
    const float *o = output_ + r * value_row_, *shift = shifts_[i].output + at * value_row_;
    const float total = exact_[static_cast<size_t>(r)].total, moved_by = shifts_[i].total[at];
    const float share = moved_by / total, inverse = 1.0f / (total + moved_by);
    return square_of(h_.value_dim, norms_of(r), [&](int64_t c) {
      const int64_t n = h_.value_dim - c;
      return (cpu::load(shift + c, n) - cpu::load(o + c, n) * share) * inverse;
    });
  }

  void finish(int64_t r, float* out) {
    const bool thorough = rows_[pos(r)].thorough, has_thorough = !in_.request.thorough.empty();
    const LogSum& exact = exact_[static_cast<size_t>(r)];
    const SampleRequest& request = in_.request;
    const auto divergence = [&](float moved_by, const LogSum& to) {
      const double d = static_cast<double>(moved_by / exact.total) + (to.value() - exact.value());
      return static_cast<float>(std::max(d, 0.0));
    };
    // Of each trial once: most slots have one trial.
    const auto fill = [](float* figures, int n, const auto& trial_at, const auto& figure_of) {
      for (int i = 0; i < n; ++i) {
        int first = 0;
        while (trial_at(first) != trial_at(i)) ++first;
        figures[i] = first < i ? figures[first] : figure_of(trial_at(i));
      }
    };
    const auto key_trial = [&](int i) { return keys_.at(pos(r), i); };
    const int n = request.cache().size();
    out[request.output()] = weighted_square(output_ + r * value_row_, r);
    fill(out + request.key_divergence(), n, key_trial,
         [&](size_t trial) { return divergence(moved(trial, r), rounded(trial, r)); });
    fill(
        out + request.value_change(), n, [&](int i) { return values_.at(pos(r), i); },
        [&](size_t trial) { return weighted_square(changes_[trial] + r * value_row_, r); });
    if (has_thorough && !thorough)
      std::fill_n(out + request.query_divergence(), request.n_figures() - request.query_divergence(), -1.0f);
    if (!thorough) return;
    fill(
        out + request.query_divergence(), request.query().size(),
        [&](int i) { return trials_.at(thorough_before(r), i); },
        [&](size_t trial) { return divergence(trials_[trial].moved, trials_[trial].sum); });
    fill(out + request.key_change(), n, key_trial, [&](size_t trial) { return key_change(trial, r); });
  }

  const Shape4& h_;
  Input in_;
  int64_t kv_head_;
  std::span<const SampledRow> rows_;
  int64_t n_rows_, key_row_, left_row_, value_row_;
  Products products_;
  QueryTrials trials_;
  TriedRungs keys_, values_;
  float* wide_query_;                     // [n_rows, key_row]
  Element* query_;                        // [n_rows, left_row]
  Element* trial_query_;                  // [trials, left_row]
  float* trial_logits_;                   // [trials, kLogitsRow]
  Rows64 block_keys_, block_values_;      // [kKeys, key_row], [kKeys, value_row]
  Rows64 rounded_keys_, changed_values_;  // likewise
  float *logits_, *rounded_logits_;       // [n_rows, kLogitsRow]
  float* probabilities_;                  // [n_rows, kLogitsRow], below the row's maximum so far
  Element* weights_;                      // [n_rows, kWeightsRow]: what values are multiplied with
  float* product_;                        // [n_rows, value_row]
  float* output_;                         // [n_rows, value_row]: Σ p v
  std::vector<float*> changes_;           // by trial of values: Σ p (v' - v)
  std::vector<int64_t> thorough_before_;  // [n_rows + 1]
  std::vector<KeyShift> shifts_;          // by trial of keys
  std::vector<float> total_before_;       // [n_rows]: sum of exponentials without the block, below the maximum with it
  std::vector<LogSum> exact_, rounded_;   // [n_rows], [trials of keys, n_rows]
  std::vector<float> moved_;              // [trials of keys, n_rows]: Σ p (l - l')
};

}  // namespace kvcal::cpu
