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
#include "ops/cpu/finish_rows.h"

namespace kvcal::cpu {
namespace {

constexpr int64_t kGroupSlots = 4096;
constexpr int64_t kTaskSlots = kRows;

struct Slot {
  int32_t expert;
  int64_t token;
  float weight;
};

/// Slots [first, last) of one expert, at most kTaskSlots of them: the work of one task with one block of the expert's
/// weights, which stays in the cache from panel to panel.
struct ExpertRows {
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

std::vector<ExpertRows> rows_of_experts(std::span<const Slot> slots) {
  std::vector<ExpertRows> rows;
  const auto n = static_cast<int64_t>(slots.size());
  for (int64_t i = 0; i < n; ++i) {
    const int32_t expert = slots[static_cast<size_t>(i)].expert;
    if (rows.empty() || rows.back().expert != expert || i - rows.back().first == kTaskSlots)
      rows.push_back({expert, i, i});
    rows.back().last = i + 1;
  }
  return rows;
}

/// f(panel) for the panels of rows by w, which have all of the scratch memory each.
template <class F>
void for_each_panel(const ExpertRows& rows, const PackedWeight& w, Arena& scratch, F&& f) {
  for (const RowPanel& panel : row_panels(rows.first, rows.last, w, kFewRows)) {
    scratch.reset();
    f(panel);
  }
}

/// One block of a weight's rows.
struct WeightBlock {
  const PackedWeight& weight;
  int64_t block, first, n;  // which, its first row, its rows
  const float* bias;        // of these rows; null = none
};

WeightBlock weight_block(const Linear& linear, int64_t block) {
  const PackedWeight& weight = weight_of(linear);
  const PackedWeight::Panel& panel = weight.panels[static_cast<size_t>(block * weight.k_blocks)];
  return {weight, block, panel.n0, panel.n, linear.bias ? linear.bias.view.as<float>() + panel.n0 : nullptr};
}

/// x [panel.n, in] times the block -> `to`, its rows `to_row` elements apart.
template <class T>
void project(const Tensor& x, const RowPanel& panel, const WeightBlock& w, T* to, int64_t to_row, bool pairs,
             Arena& scratch) {
  const float* product = multiply_panel(x.data, x.dtype, panel, w.weight, w.block, scratch);
  finish_rows(product, panel.n, w.n, w.bias, to, to_row, pairs);
}

/// hidden = glu(gate, up), or activate(up), for one block of their rows; both are rounded to T first, as results of
/// linear are.
template <class T>
void hidden_block(const RowPanel& panel, const GluWeights& expert, int64_t block, const ExpertBuffers& b, bool pairs,
                  Arena& scratch) {
  const WeightBlock first = weight_block(expert.up, block);
  const auto projected = [&](const Linear& l) {
    T* to = scratch.allocate({panel.n, first.n}, b.rows.dtype).template as<T>();
    project(b.rows, panel, weight_block(l, block), to, first.n, pairs, scratch);
    return to;
  };
  const T* up = projected(expert.up);
  const T* gate = expert.gate ? projected(expert.gate) : nullptr;
  for (int64_t i = 0; i < panel.n; ++i) {
    T* to = b.hidden.as<T>() + (panel.row + i) * b.hidden.dim(1) + first.first;
    if (gate)
      glu_row(gate + i * first.n, up + i * first.n, to, first.n, expert.act);
    else
      activate_row(up + i * first.n, to, first.n, expert.act);
  }
}

/// rows [slots, dim] from..to = x [tokens, dim] of each slot's token.
template <class T>
void gather_rows(const Tensor& x, std::span<const Slot> group, const Tensor& rows, int64_t from, int64_t to) {
  const int64_t dim = x.dim(1);
  for (int64_t i = from; i < to; ++i)
    std::copy_n(x.as<T>() + group[static_cast<size_t>(i)].token * dim, dim, rows.as<T>() + i * dim);
}

/// sums [tokens, dim] += weight * result of each slot in order, for the columns from..to: ascending experts for every
/// token.
void add_results(const Tensor& results, std::span<const Slot> group, const Tensor& sums, int64_t from, int64_t to) {
  const int64_t dim = sums.dim(1);
  for (size_t i = 0; i < group.size(); ++i) {
    const float* result = results.as<float>() + static_cast<int64_t>(i) * dim;
    float* sum_row = sums.as<float>() + group[i].token * dim;
    for (int64_t c = from; c < to; ++c) sum_row[c] += group[i].weight * result[c];
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
      const std::vector<ExpertRows> rows = rows_of_experts(group);
      const auto n_rows = static_cast<int64_t>(rows.size());
      parallel_rows(static_cast<int64_t>(group.size()), dim,
                    [&](int64_t from, int64_t to) { gather_rows<T>(x, group, buffers.rows, from, to); });
      // All experts have one shape, so their grids agree.
      const int64_t up_blocks = weight_of(experts[0].up).n_blocks, down_blocks = weight_of(experts[0].down).n_blocks;
      parallel(n_rows * up_blocks, [&](int64_t task, Arena& scratch) {
        const ExpertRows& r = rows[static_cast<size_t>(task / up_blocks)];
        const GluWeights& expert = experts[static_cast<size_t>(r.expert)];
        for_each_panel(r, weight_of(expert.up), scratch, [&](const RowPanel& panel) {
          hidden_block<T>(panel, expert, task % up_blocks, buffers, pairs_, scratch);
        });
      });
      if (const InputRounding& input = experts[0].down.input)
        round_rows(buffers.hidden, buffers.hidden, static_cast<int64_t>(group.size()), input);
      parallel(n_rows * down_blocks, [&](int64_t task, Arena& scratch) {
        const ExpertRows& r = rows[static_cast<size_t>(task / down_blocks)];
        const WeightBlock down = weight_block(experts[static_cast<size_t>(r.expert)].down, task % down_blocks);
        for_each_panel(r, down.weight, scratch, [&](const RowPanel& panel) {
          project(buffers.hidden, panel, down, buffers.results.as<float>() + panel.row * dim + down.first, dim, pairs_,
                  scratch);
        });
      });
      constexpr int64_t kColumns = 256;  // of a worker
      parallel((dim + kColumns - 1) / kColumns, [&](int64_t task, Arena&) {
        add_results(buffers.results, group, sums, task * kColumns, std::min(dim, (task + 1) * kColumns));
      });
    }
    parallel_rows(sums.elements(), 1, [&](int64_t from, int64_t to) {
      for (int64_t i = from; i < to; i += kLanes) store(y.as<T>() + i, load(sums.as<float>() + i, to - i), to - i);
    });
  });
  return y;
}

}  // namespace kvcal::cpu
