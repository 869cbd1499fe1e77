// The CUDA backend: who owns device memory and the stream. Host code; the kernels are behind kernels.h.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/cuda_ops.h"
#include "kernels/dequantize.h"
#include "kernels/gemm.h"
#include "kernels/kernels.h"
#include "kernels/library_attention.h"
#include "kernels/runtime/background_reader.h"
#include "kernels/runtime/device_heap.h"
#include "kernels/runtime/memory.h"
#include "kernels/runtime/pinned_staging.h"
#include "ops/op_list.h"
#include "ops/ops.h"

namespace kvcal::cuda {

class CudaBackend final : public Ops {
 public:
  CudaBackend(const CudaOptions& options, std::unique_ptr<Gemm> gemm, std::unique_ptr<AttentionLibrary> attention);

  void enter_thread() override;
  std::string isa() const override;
  std::vector<std::string> notes() const override;
  Tensor temporary(const Shape& shape, DType dtype) override;
  void end_batch() override;
  Owned allocate(const Shape& shape, DType dtype) override;
  Tensor upload(const Tensor& host) override;
  void download(const Tensor& from, const Tensor& host) override;
  Mark mark() override;
  void download_at(const Mark& mark, const Tensor& from, const Tensor& host) override;
  WeightReader* reader() override { return &reader_; }
  DeviceMemory device_memory() const override;
  void reserve(const MemoryReserve& bytes) override;
  std::unique_ptr<ResidualRows> residual_rows(const ResidualShape& shape, ResidualPlace place) override;

 private:
  Linear do_load_linear(const Tensor& weight, const Tensor& bias) override;
  Linear do_load_linear_f32(const Tensor& weight, const Tensor& bias) override;
  Owned do_load_vector(const Tensor& weight, DType as, float plus) override;
  LinearGroup do_load_linears(std::span<const HostLinear> weights) override;
  std::shared_ptr<const ColumnNorms> do_load_column_norms(const Tensor& weight, const Tensor& expansion,
                                                          int64_t n_heads) override;
#define KVCAL_OVERRIDE(Result, name, parameters, ...) Result do_##name parameters override;
  KVCAL_OPS(KVCAL_OVERRIDE)
  KVCAL_COMPOSED_OPS(KVCAL_OVERRIDE)
#undef KVCAL_OVERRIDE

  /// Spans of rows with the state each advances, made where there is none; [n_heads, dk, dv] or [channels, n_state].
  template <class State>
  std::vector<float*> states_of(std::span<const Span> spans, std::span<State* const> states, const Shape& shape);

  /// advance(stretch) of the spans, and their states, of such a shape, rounded where they are stored.
  template <class State, class Advance>
  void advance_and_store(std::span<const Span> spans, std::span<State* const> states, const Shape& shape,
                         const Advance& advance);

  /// A temporary of the activation dtype.
  Tensor activation(const Shape& shape) { return temporary(shape, activation_dtype()); }

  /// Queues a copy. One from pageable host memory has read it when the call returns.
  void copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind);

  /// The same to the device without waiting for it.
  void copy_small(void* to, const void* from, size_t bytes);

  void gather_rows(const Tensor& table, std::span<const int32_t> ids, const Tensor& rows);

  /// A temporary with the bytes of a host array.
  template <class Range>
  auto* device_copy(const Range& host) {
    using T = std::remove_const_t<std::remove_reference_t<decltype(*std::data(host))>>;
    const size_t bytes = std::size(host) * sizeof(T);
    const Tensor t = temporary({static_cast<int64_t>(bytes)}, DType::U8);
    copy_small(t.data, std::data(host), bytes);
    return static_cast<const T*>(t.data);
  }

  /// Persistent memory.
  Owned uninitialised(const Shape& shape, DType dtype);

  /// Converted on the host to `as`, plus a constant, as memory of the device; read later when the reader collects.
  Owned load(const Tensor& host, DType as, float plus);
  void load_into(const Tensor& device, const Tensor& host, float plus);

  /// The same of a tensor that is only stored; the reader collects.
  void load_stored(const Tensor& device, const Tensor& stored);
  void read_codes(const EncodedPart& part, const WeightCodes& form, const Tensor& device);
  void read_decoded(const EncodedPart& part, const Tensor& device);

  /// y = x Wᵀ + b, x and y as Gemm wants them.
  void multiply(const Tensor& x, const Linear& w, const Tensor& y);
  void multiply_groups(GroupedProduct p, std::span<const Linear* const> weights);
  /// Rows by expert, all on the device: expert e has [first[e], first[e + 1]) of the rows x[row_of[r]] (null: x[r]).
  struct ExpertRows {
    Tensor x;
    const int32_t* first;
    const int64_t* row_of;
  };
  void multiply_experts(const ExpertRows& rows, std::span<const GluWeights> experts, Linear GluWeights::*weight,
                        const Tensor& to);
  Tensor hidden_of_experts(const ExpertRows& rows, int64_t slots, std::span<const GluWeights> experts);

  /// How a bias is kept: BF16 where that is exact.
  DType bias_type(const Tensor& host) const;

  void append(KvRows& rows, const Span& span, const Tensor& k, const Tensor& v);
  void reserve(KvRows& rows, int64_t n, const Tensor& k, const Tensor& v);

  /// Rows of the batch: q, k, v as attention() has them, y its result. Of kept keys and values only the extents count.
  struct AttentionRows {
    Tensor q, k, v, y;
  };
  Tensor attend(const AttentionRows& rows, std::vector<AttentionSpan> spans, const AttentionSpec& spec, bool kept);
  /// Queues what the library does; gives back the spans that it leaves.
  std::vector<AttentionSpan> attend_by_library(const AttentionRows& rows, std::vector<AttentionSpan> spans,
                                               const AttentionShape& shape);
  bool passes_trial(const AttentionGroup& group, const AttentionCall& call, std::span<const AttentionSpan> spans,
                    const AttentionRows& rows, const AttentionShape& shape);
  bool agrees(const AttentionGroup& group, std::span<const AttentionSpan> spans, const Tensor& q, const Tensor& y,
              AttentionShape shape);

  const int device_;
  std::unique_ptr<Gemm> gemm_;
  std::unique_ptr<AttentionLibrary> attention_;    // null: there is none
  std::map<AttentionPlan, bool> attention_plans_;  // those met so far: whether the library does them
  std::vector<std::string> notes_;
  Stream stream_;
  Stream fetching_;  // of download_at(): beside the work on stream_
  DeviceArena arena_;
  PinnedStaging staging_;
  std::optional<ThreadPool> gatherers_;  // of rows of embeddings; once there are many
  std::optional<DeviceHeap> heap_;       // once reserved
  BackgroundReader reader_;
  struct {
    std::shared_ptr<const EncodedWeight> weight;
    WeightRows rows{};
    uint64_t collected = 0;
    std::shared_ptr<std::vector<DecodedRows>> results;
  } coded_;                  // what read_codes() was asked for last, and what is made of it
  size_t shared_limit_ = 0;  // bytes of shared memory a block may have
  int n_processors_ = 0;     // multiprocessors
  bool warpgroups_ = false;  // has_warpgroups()
  std::string isa_;
};

/// The tensor's memory. Throws Error when it is not on the device.
void* data_of(const Tensor& t);
template <class T>
T* data_as(const Tensor& t) {
  return static_cast<T*>(data_of(t));
}

/// AttentionSpec::picked, for n_heads query heads.
inline PickedKeys picked_keys(const Tensor& picked, int64_t n_heads) {
  if (!picked) return {};
  return {data_as<uint64_t>(picked), picked.dim(2), picked.dim(1), n_heads / picked.dim(1)};
}

/// W of a weight that this backend has loaded.
inline const Tensor& weight_of(const Linear& l) { return static_cast<const Owned*>(l.packed.get())->view; }

/// Elements of the last dimension, and how many such rows there are.
inline int64_t width_of(const Tensor& t) { return t.dim(-1); }
inline int64_t rows_of(const Tensor& t) { return t.dim(-1) > 0 ? t.elements() / t.dim(-1) : 0; }

/// The shape with another extent in front, or at the end.
Shape with_first(const Shape& shape, int64_t extent);
Shape with_last(const Shape& shape, int64_t extent);

}  // namespace kvcal::cuda
