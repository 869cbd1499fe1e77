// What sampled attention knows of a row, and the sum that its softmax carries from block to block.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <span>
#include <type_traits>
#include <vector>

#include "ops/attention_sample.h"
#include "ops/cpu/attention_products.h"
#include "ops/cpu/math.h"
#include "tensor/arena.h"

namespace kvcal::cpu {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Shape4 {
  int64_t n_heads, n_kv_heads, key_dim, value_dim;
  int64_t group() const { return n_heads / n_kv_heads; }
};

/// n floats or pairs of a task's scratch memory.
template <class Element>
Element* room_for(int64_t n, Arena& scratch) {
  return scratch.allocate({n}, std::is_same_v<Element, float> ? DType::F32 : DType::I32).template as<Element>();
}

inline float* zeros(int64_t n, Arena& scratch) {
  auto* data = room_for<float>(n, scratch);
  std::fill_n(data, n, 0.0f);
  return data;
}

/// A sampled row: its place in the request, its row in the batch, and the keys it sees.
struct SampledRow {
  int64_t index, row, position, first_key, last_key;
  int key_rung, value_rung, query_rung;  // the lowest that clip nothing
  bool thorough;
  const uint64_t* picked = nullptr;  // [pickers, words]; or null
};

/// What a task tries of keys, or of values: each rung once, for the rows that try it.
class TriedRungs {
 public:
  struct Trial {
    int rung;
    size_t first, last;  // of the rows, those that try it and perhaps others between them
    bool covers(size_t row) const { return first <= row && row <= last; }
  };

  /// alike: of each row, the highest rung of alike roundings.
  TriedRungs(std::span<const SampledRow> rows, const RungLadder& ladder, int SampledRow::*lowest,
             const std::vector<int>& alike)
      : n_slots_(static_cast<size_t>(ladder.size())) {
    std::map<int, size_t> of_rung;
    for (size_t row = 0; row < rows.size(); ++row)
      for (int slot = 0; slot < ladder.size(); ++slot) {
        const int rung = tried_rung(ladder.rung(slot, rows[row].*lowest), rows[row].*lowest, alike[row]);
        const auto [found, is_new] = of_rung.try_emplace(rung, trials_.size());
        if (is_new) trials_.push_back({rung, row, row});
        trials_[found->second].last = row;
        of_slot_.push_back(found->second);
      }
  }

  size_t size() const { return trials_.size(); }
  const Trial& operator[](size_t i) const { return trials_[i]; }
  auto begin() const { return trials_.begin(); }
  auto end() const { return trials_.end(); }
  /// Which of them is at a slot of a row's ladder.
  size_t at(size_t row, int slot) const { return of_slot_[row * n_slots_ + static_cast<size_t>(slot)]; }

 private:
  size_t n_slots_;
  std::vector<Trial> trials_;
  std::vector<size_t> of_slot_;  // [rows, slots]
};

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

/// Those of the block from key0 on that a row sees for a key-value head. picked: AttentionSpec's.
inline uint64_t keys_seen_by(const SampledRow& row, int64_t key0, const Tensor& picked, int64_t kv_head,
                             int64_t n_kv_heads) {
  const uint64_t seen = seen_keys(row.first_key - key0, row.last_key - key0 + 1);
  if (!row.picked) return seen;
  return seen & row.picked[kv_head / (n_kv_heads / picked.dim(1)) * picked.dim(2) + key0 / kKeys];
}

/// Scales the logits of a block of keys; -inf where they are not seen.
inline void mask_logits(uint64_t seen, float scale, float* l) {
  for (int64_t j = 0; j < kKeys; j += kLanes)
    store8(l + j, seen_lanes(seen, j) ? load8(l + j) * scale : splat(-kInfinity));
}

/// Logits l2 of a block of keys against the exact ones l and their probabilities p, -inf where the row does not see.
struct Compared {
  float maximum, total, moved;  // of l2; sum of exponentials below it; Σ p (l - l2)
};

inline Compared compare_logits(const float* l, const float* p, const float* l2) {
  F32x8 top = splat(-kInfinity);
  for (int64_t j = 0; j < kKeys; j += kLanes) top = larger(load8(l2 + j), top);
  const float maximum = largest(top);
  if (maximum == -kInfinity) return {maximum, 0, 0};
  F32x8 total{}, moves{};
  for (int64_t j = 0; j < kKeys; j += kLanes) {
    const F32x8 a = load8(l + j), b = load8(l2 + j);
    total += exp(b - maximum);
    moves += a == -kInfinity ? F32x8{} : load8(p + j) * (a - b);
  }
  return {maximum, sum(total), sum(moves)};
}

/// |y|² of the n columns that y(c) gives, eight at a time and zeros beyond the last, each weighted.
template <class Columns>
float square_of(int64_t n, const float* weights, Columns y) {
  F32x8 squares{};
  for (int64_t c = 0; c < n; c += kLanes) {
    const F32x8 weighted = y(c) * cpu::load(weights + c, n - c);
    squares += weighted * weighted;
  }
  return sum(squares);
}

/// What rounding keys at a rung changes in thorough rows, below the maximum of the exact logits. What it adds to all
/// logits of a row alike is the row's offset, about log Z' - log Z: it is not felt, and would drown what is.
struct KeyShift {
  KeyShift(int64_t rows, int64_t stride, int64_t value_dim, Arena& scratch)
      : output(zeros(rows * stride, scratch)),
        total(zeros(rows, scratch)),
        offset(zeros(rows, scratch)),
        row(stride),
        width(value_dim) {}

  float* output;  // [rows, row]: do = Σ (p' e^-offset - p) v
  float* total;   // [rows]: dZ = Σ (p' e^-offset - p)
  float* offset;  // [rows]
  int64_t row, width;

  void rescale(int64_t at, float factor) {
    total[at] *= factor;
    for (int64_t c = 0; c < width; c += kLanes) store8(output + at * row + c, load8(output + at * row + c) * factor);
  }

  /// With o and Z so far and f = e^(old - new): do -> f do + (f - 1) o, dZ -> f dZ + (f - 1) Z.
  void move_offset(int64_t at, float to, const float* o, float z) {
    if (offset[at] == to) return;
    constexpr float kMost = 40.0f;  // e^40 times as much is everything
    const float f = exp(splat(std::clamp(offset[at] - to, -kMost, kMost)))[0];
    offset[at] = to;
    total[at] = f * total[at] + (f - 1.0f) * z;
    float* sum = output + at * row;
    for (int64_t c = 0; c < width; c += kLanes) store8(sum + c, load8(sum + c) * f + load8(o + c) * (f - 1.0f));
  }

  void add(int64_t at, const float* part, float of_total) {
    total[at] += of_total;
    float* sum = output + at * row;
    for (int64_t c = 0; c < width; c += kLanes) store8(sum + c, load8(sum + c) + load8(part + c));
  }
};

}  // namespace kvcal::cpu
