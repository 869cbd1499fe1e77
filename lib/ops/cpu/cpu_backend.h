// The CPU backend: who owns memory and threads. One .cpp file per group of ops.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/panel_product.h"
#include "ops/op_list.h"
#include "ops/ops.h"
#include "ops/state_stretches.h"
#include "ops/visit_activation.h"
#include "tensor/arena.h"

namespace kvcal::cpu {

/// A weight cut into panels of at most 256 x 4096, each packed by its own fixed-shape product. The grid depends on the
/// weight's shape alone.
struct PackedWeight {
  struct Panel {
    int64_t n0, n, k0, k;  // rows [n0, n0 + n) and columns [k0, k0 + k) of W
    std::shared_ptr<const PanelProduct> product;
    size_t offset;  // of its packed form in `memory`
  };
  int64_t out, in;
  int64_t n_blocks, k_blocks;
  std::vector<Panel> panels;  // [n_blocks][k_blocks]
  Storage memory;

  DType dtype() const { return panels[0].product->shape().activation; }

  /// Whether panels of the two row counts give the same bytes.
  bool agree(int64_t rows, int64_t others) const;
};

/// Rows [row, row + n) of a product: at most `panel` of them, which is one of kPanelRows; the rest is zeros.
struct RowPanel {
  int64_t row, n, panel;
};

/// Rows [first, last) in panels that give the bytes of panels of `like` rows, the largest that fit first.
std::vector<RowPanel> row_panels(int64_t first, int64_t last, const PackedWeight& w, int64_t like);

/// x [rows, in] times rows [n0, n0 + n) of W, in scratch: F32 [panel, n], of which the first `n` rows count.
const float* multiply_panel(const void* x, DType dtype, const RowPanel& rows, const PackedWeight& w, int64_t n_block,
                            Arena& scratch);

class CpuBackend final : public Ops {
 public:
  explicit CpuBackend(const CpuOptions& options);

  std::string isa() const override;
  Tensor temporary(const Shape& shape, DType dtype) override;
  void end_batch() override;
  Owned allocate(const Shape& shape, DType dtype) override;
  Tensor upload(const Tensor& host) override;
  void download(const Tensor& from, const Tensor& host) override;

 private:
  Linear do_load_linear(const Tensor& weight, const Tensor& bias) override;
  Linear do_load_linear_f32(const Tensor& weight, const Tensor& bias) override;
  Owned do_load_vector(const Tensor& weight, DType as, float plus) override;
#define KVCAL_OVERRIDE(Result, name, parameters, ...) Result do_##name parameters override;
  KVCAL_OPS(KVCAL_OVERRIDE)
#undef KVCAL_OVERRIDE

  /// W as panels of the given dtype; x, which has the panels' dtype, times such a W.
  Linear pack(const Tensor& weight, const Tensor& bias, DType as);
  Tensor multiply(const Tensor& x, const Linear& w, DType result);
  /// The same into columns [y_column, y_column + w.out) of y, whose rows are y_row elements apart.
  void multiply(const Tensor& x, const Linear& w, const Tensor& y, int64_t y_column, int64_t y_row);

  /// Keys and values of one sequence, position 0 first: [>= n_tokens, n_kv_heads, ..].
  struct KeysAndValues {
    Tensor key, value;
    int64_t n_tokens;
  };
  struct KeyValueHeads {
    int64_t n_heads, value_dim;
  };
  Tensor attend(const Tensor& q, std::span<const Span> spans, std::span<const KeysAndValues> sequences,
                const KeyValueHeads& kv, const AttentionSpec& spec);

  /// round_input() of the first rows of x, to y: x itself, or another tensor of its shape.
  void round_rows(const Tensor& x, const Tensor& y, int64_t rows, const InputRounding& rounding);

  /// What gated_delta_rule and ssd have in common (recurrence.cpp).
  template <class Heads, class Tensors, class State>
  void recur(const Heads& heads, const Tensors& tensors, std::span<const Span> spans, std::span<State* const> states);

  /// advance(stretch) of the spans, and their states rounded where they are stored.
  template <class State, class Advance>
  void advance_and_store(std::span<const Span> spans, std::span<State* const> states, const Advance& advance) {
    in_stretches(spans, states, advance, [&](std::span<const StoredNow> now) {
      std::vector<Tensor> stored;
      for (const StoredNow& s : now) stored.push_back(states[s.index]->s.view);
      store_states(stored, now, format_of(states));
    });
  }
  /// Rounds them in place (state_rounding.cpp).
  void store_states(const std::vector<Tensor>& states, std::span<const StoredNow> now, const StateFormat& format);

  /// gated_delta_rule with gates by channel (channel_delta.cpp).
  Tensor channel_delta_rule(const Tensor& q, const Tensor& k, const Tensor& v, const DeltaGates& gates,
                            std::span<const Span> spans, std::span<DeltaState* const> states);

  /// A temporary of the activation dtype.
  Tensor activation(const Shape& shape) { return temporary(shape, activation_dtype()); }

  /// fn(task, scratch) on all threads; scratch is empty at the start of each task.
  template <class F>
  void parallel(int64_t n_tasks, F&& fn) {
    pool_.parallel_for(n_tasks, [&](int64_t task, int worker) {
      Arena& scratch = scratch_[static_cast<size_t>(worker)];
      scratch.reset();
      fn(task, scratch);
    });
  }

  /// fn(begin, end) over blocks of rows large enough to be worth a task.
  template <class F>
  void parallel_rows(int64_t rows, int64_t elements_per_row, F&& fn) {
    constexpr int64_t kTaskElements = 32768;
    const int64_t block = std::max<int64_t>(1, kTaskElements / std::max<int64_t>(1, elements_per_row));
    pool_.parallel_for((rows + block - 1) / block,
                       [&](int64_t task, int) { fn(task * block, std::min(rows, (task + 1) * block)); });
  }

  /// f of every element.
  template <class F>
  Tensor map(const Tensor& x, F&& f);

  ThreadPool pool_;
  std::vector<Arena> scratch_;  // one per worker
  Arena arena_;
  std::unique_ptr<PanelProducts> products_;      // of activations
  std::unique_ptr<PanelProducts> f32_products_;  // where linear_f32() has an F32 weight
  bool pairs_ = false;  // whether pair_gemm.h may be used: the instructions are there, and isa() says so
  bool tiles_ = false;  // whether tile_gemm may be
};

}  // namespace kvcal::cpu
