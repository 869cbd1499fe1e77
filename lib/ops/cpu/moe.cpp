// Mixture of experts: routing, and the experts' products over the rows that chose them.
//
// Rows are gathered by expert ("slots": expert ascending, then token ascending). Experts are worked through in groups
// of bounded size; after each group its weighted results are added to the f32 sums, every token's own experts in
// ascending order. Groups bound memory and are invisible in the result.
#include <algorithm>
#include <cstring>
#include <vector>

#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/math.h"

namespace kvcal::cpu {
namespace {

constexpr int64_t kGroupSlots = 4096;

struct Slot {
  int32_t expert;
  int64_t token;
  float weight;
};

/// Slots [first, last) of one expert, at most kFewRows of them.
struct SlotPanel {
  int32_t expert;
  int64_t first, last;
};

const PackedWeight& weight_of(const Linear& l) { return *static_cast<const PackedWeight*>(l.packed.get()); }

std::vector<Slot> sorted_slots(const Routing& routing) {
  const int64_t k = routing.experts.dim(1);
  std::vector<Slot> slots;
  slots.reserve(static_cast<size_t>(routing.experts.elements()));
  for (int64_t i = 0; i < routing.experts.elements(); ++i)
    slots.push_back({routing.experts.as<int32_t>()[i], i / k, routing.weights.as<float>()[i]});
  std::stable_sort(slots.begin(), slots.end(), [](const Slot& a, const Slot& b) { return a.expert < b.expert; });
  return slots;
}

/// Probabilities of one row: softmax in f32.
template <class T>
void softmax(const T* logits, float* p, int64_t n) {
  float top = load(logits, 1)[0];
  for (int64_t i = 1; i < n; ++i) {
    const float x = load(logits + i, 1)[0];
    top = x > top ? x : top;
  }
  F32x8 sums{};
  for (int64_t i = 0; i < n; i += kLanes) {
    F32x8 e = exp(load(logits + i, n - i) - top);
    for (int64_t l = n - i; l < kLanes; ++l) e[l] = 0.0f;
    sums += e;
    store(p + i, e, n - i);
  }
  const float total = sum(sums);
  for (int64_t i = 0; i < n; i += kLanes) store(p + i, load(p + i, n - i) / total, n - i);
}

}  // namespace

Routing CpuBackend::do_route_softmax(const Tensor& logits, int64_t k, bool renormalize) {
  const int64_t rows = logits.dim(0), n = logits.dim(1);
  const Routing r{temporary({rows, k}, DType::I32), temporary({rows, k}, DType::F32)};
  visit_activation(logits.dtype, [&](auto tag) {
    using T = decltype(tag);
    parallel_rows(rows, n * (k + 4), [&](int64_t begin, int64_t end) {
      std::vector<float> p(static_cast<size_t>(n));
      for (int64_t t = begin; t < end; ++t) {
        softmax(logits.as<T>() + t * n, p.data(), n);
        int32_t* experts = r.experts.as<int32_t>() + t * k;
        float* weights = r.weights.as<float>() + t * k;
        float total = 0.0f;
        for (int64_t j = 0; j < k; ++j) {
          // Taken ones are marked with -1; a NaN is larger than nothing and is taken when only such are left.
          size_t best = 0;
          while (p[best] == -1.0f) ++best;
          for (size_t e = best + 1; e < p.size(); ++e)
            if (p[e] > p[best]) best = e;
          experts[j] = static_cast<int32_t>(best);
          weights[j] = p[best];
          total += p[best];
          p[best] = -1.0f;
        }
        if (renormalize)
          for (int64_t j = 0; j < k; ++j) weights[j] /= total;
      }
    });
  });
  return r;
}

namespace {

/// Buffers for the slots of one group.
struct ExpertBuffers {
  Tensor rows;     // [slots, dim]: x of each slot's token
  Tensor hidden;   // [slots, ffn]
  Tensor results;  // F32 [slots, dim]
};

/// Panels of at most kFewRows slots that share an expert.
std::vector<SlotPanel> slot_panels(std::span<const Slot> slots) {
  std::vector<SlotPanel> panels;
  const auto n = static_cast<int64_t>(slots.size());
  for (int64_t i = 0; i < n; ++i) {
    const int32_t expert = slots[static_cast<size_t>(i)].expert;
    if (panels.empty() || panels.back().expert != expert || i - panels.back().first == kFewRows)
      panels.push_back({expert, i, i});
    panels.back().last = i + 1;
  }
  return panels;
}

/// hidden = silu_mul(gate, up) for one block of their rows; both are rounded to T first, as results of linear are.
template <class T>
void hidden_block(const SlotPanel& p, const SwigluWeights& expert, int64_t block, const ExpertBuffers& b,
                  Arena& scratch) {
  const RowPanel rows{p.first, p.last - p.first, kFewRows};
  const PackedWeight &gate = weight_of(expert.gate), &up = weight_of(expert.up);
  const PackedWeight::Panel& columns = gate.panels[static_cast<size_t>(block * gate.k_blocks)];
  const auto rounded = [&](const float* from) {
    T* to = scratch.allocate({rows.n, columns.n}, b.rows.dtype).template as<T>();
    for (int64_t i = 0; i < rows.n * columns.n; i += kLanes) {
      const int64_t left = rows.n * columns.n - i;
      store(to + i, load(from + i, left), left);
    }
    return to;
  };
  const T* g = rounded(multiply_panel(b.rows.data, b.rows.dtype, rows, gate, block, scratch));
  const T* u = rounded(multiply_panel(b.rows.data, b.rows.dtype, rows, up, block, scratch));
  for (int64_t i = 0; i < rows.n; ++i)
    silu_mul_row(g + i * columns.n, u + i * columns.n, b.hidden.as<T>() + (p.first + i) * b.hidden.dim(1) + columns.n0,
                 columns.n);
}

}  // namespace

Tensor CpuBackend::do_experts_swiglu(const Tensor& x, const Routing& routing, std::span<const SwigluWeights> experts) {
  const int64_t tokens = x.dim(0), dim = x.dim(1), ffn = experts[0].gate.out;
  const Tensor y = activation(x.shape), sums = temporary({tokens, dim}, DType::F32);
  std::memset(sums.data, 0, sums.bytes());
  const std::vector<Slot> slots = sorted_slots(routing);
  const int64_t room = std::min(static_cast<int64_t>(slots.size()), kGroupSlots);
  const ExpertBuffers buffers{activation({room, dim}), activation({room, ffn}), temporary({room, dim}, DType::F32)};

  visit_activation(x.dtype, [&](auto tag) {
    using T = decltype(tag);
    for (size_t begin = 0; begin < slots.size(); begin += kGroupSlots) {
      const std::span<const Slot> group(slots.data() + begin, std::min<size_t>(kGroupSlots, slots.size() - begin));
      const std::vector<SlotPanel> panels = slot_panels(group);
      const auto n_panels = static_cast<int64_t>(panels.size());
      parallel_rows(static_cast<int64_t>(group.size()), dim, [&](int64_t from, int64_t to) {
        for (int64_t i = from; i < to; ++i)
          std::copy_n(x.as<T>() + group[static_cast<size_t>(i)].token * dim, dim, buffers.rows.as<T>() + i * dim);
      });
      // All experts have one shape, so their grids agree.
      const int64_t gate_blocks = weight_of(experts[0].gate).n_blocks,
                    down_blocks = weight_of(experts[0].down).n_blocks;
      parallel(n_panels * gate_blocks, [&](int64_t task, Arena& scratch) {
        const SlotPanel& p = panels[static_cast<size_t>(task / gate_blocks)];
        hidden_block<T>(p, experts[static_cast<size_t>(p.expert)], task % gate_blocks, buffers, scratch);
      });
      parallel(n_panels * down_blocks, [&](int64_t task, Arena& scratch) {
        const SlotPanel& p = panels[static_cast<size_t>(task / down_blocks)];
        const PackedWeight& down = weight_of(experts[static_cast<size_t>(p.expert)].down);
        const int64_t block = task % down_blocks;
        const PackedWeight::Panel& columns = down.panels[static_cast<size_t>(block * down.k_blocks)];
        const float* product =
            multiply_panel(buffers.hidden.data, x.dtype, {p.first, p.last - p.first, kFewRows}, down, block, scratch);
        for (int64_t i = p.first; i < p.last; ++i)
          std::copy_n(product + (i - p.first) * columns.n, columns.n,
                      buffers.results.as<float>() + i * dim + columns.n0);
      });
      // One worker per range of columns goes through the slots in order: ascending experts for every token.
      constexpr int64_t kColumns = 256;
      parallel((dim + kColumns - 1) / kColumns, [&](int64_t task, Arena&) {
        const int64_t from = task * kColumns, to = std::min(dim, from + kColumns);
        for (size_t i = 0; i < group.size(); ++i) {
          const float* result = buffers.results.as<float>() + static_cast<int64_t>(i) * dim;
          float* sum_row = sums.as<float>() + group[i].token * dim;
          for (int64_t c = from; c < to; ++c) sum_row[c] += group[i].weight * result[c];
        }
      });
    }
    parallel_rows(sums.elements(), 1, [&](int64_t from, int64_t to) {
      for (int64_t i = from; i < to; i += kLanes) store(y.as<T>() + i, load(sums.as<float>() + i, to - i), to - i);
    });
  });
  return y;
}

}  // namespace kvcal::cpu
