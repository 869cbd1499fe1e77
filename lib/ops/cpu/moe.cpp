// Mixture of experts: the experts' products over the rows that chose them.
//
// Rows are gathered by expert ("slots": expert ascending, then token ascending). Experts are worked through in groups
// of bounded size; after each group its weighted results are added to the f32 sums, every token's own experts in
// ascending order. Groups bound memory and are invisible in the result.
#include <algorithm>
#include <cstring>
#include <vector>

#include "ops/cpu/activations.h"
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

/// hidden = glu(gate, up), or activate(up), for one block of their rows; both are rounded to T first, as results of
/// linear are.
template <class T>
void hidden_block(const SlotPanel& p, const GluWeights& expert, int64_t block, const ExpertBuffers& b, Arena& scratch) {
  const RowPanel rows{p.first, p.last - p.first, kFewRows};
  const PackedWeight& first = weight_of(expert.up);
  const PackedWeight::Panel& columns = first.panels[static_cast<size_t>(block * first.k_blocks)];
  const auto projected = [&](const Linear& l) {
    const float* from = multiply_panel(b.rows.data, b.rows.dtype, rows, weight_of(l), block, scratch);
    T* to = scratch.allocate({rows.n, columns.n}, b.rows.dtype).template as<T>();
    const float* bias = l.bias ? l.bias.view.as<float>() + columns.n0 : nullptr;
    for (int64_t i = 0; i < rows.n; ++i)
      for (int64_t c = 0; c < columns.n; c += kLanes) {
        const int64_t at = i * columns.n + c, left = columns.n - c;
        const F32x8 v = load(from + at, left);
        store(to + at, bias ? v + load(bias + c, left) : v, left);
      }
    return to;
  };
  const T* up = projected(expert.up);
  const T* gate = expert.gate ? projected(expert.gate) : nullptr;
  for (int64_t i = 0; i < rows.n; ++i) {
    T* to = b.hidden.as<T>() + (p.first + i) * b.hidden.dim(1) + columns.n0;
    if (gate)
      glu_row(gate + i * columns.n, up + i * columns.n, to, columns.n, expert.act);
    else
      activate_row(up + i * columns.n, to, columns.n, expert.act);
  }
}

}  // namespace

Tensor CpuBackend::do_experts(const Tensor& x, const Routing& routing, std::span<const GluWeights> experts) {
  const int64_t tokens = x.dim(0), dim = x.dim(1), ffn = experts[0].up.out;
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
      const int64_t up_blocks = weight_of(experts[0].up).n_blocks, down_blocks = weight_of(experts[0].down).n_blocks;
      parallel(n_panels * up_blocks, [&](int64_t task, Arena& scratch) {
        const SlotPanel& p = panels[static_cast<size_t>(task / up_blocks)];
        hidden_block<T>(p, experts[static_cast<size_t>(p.expert)], task % up_blocks, buffers, scratch);
      });
      if (const InputRounding& input = experts[0].down.input)
        round_rows(buffers.hidden, buffers.hidden, static_cast<int64_t>(group.size()), input);
      parallel(n_panels * down_blocks, [&](int64_t task, Arena& scratch) {
        const SlotPanel& p = panels[static_cast<size_t>(task / down_blocks)];
        const Linear& linear = experts[static_cast<size_t>(p.expert)].down;
        const PackedWeight& down = weight_of(linear);
        const int64_t block = task % down_blocks;
        const PackedWeight::Panel& columns = down.panels[static_cast<size_t>(block * down.k_blocks)];
        const float* product =
            multiply_panel(buffers.hidden.data, x.dtype, {p.first, p.last - p.first, kFewRows}, down, block, scratch);
        const float* bias = linear.bias ? linear.bias.view.as<float>() + columns.n0 : nullptr;
        for (int64_t i = p.first; i < p.last; ++i) {
          float* to = buffers.results.as<float>() + i * dim + columns.n0;
          const float* from = product + (i - p.first) * columns.n;
          for (int64_t c = 0; c < columns.n; c += kLanes) {
            const F32x8 v = load(from + c, columns.n - c);
            store(to + c, bias ? v + load(bias + c, columns.n - c) : v, columns.n - c);
          }
        }
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
