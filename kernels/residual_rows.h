// The residual stream where a device works: in its memory, or in pinned memory of the host with the next rows on their
// way while these are worked on. Nothing here waits for the device but on_host().
#pragma once

#include <array>

#include "kernels/runtime/handle.h"
#include "ops/ops.h"
#include "ops/residual_rows.h"

namespace kvcal::cuda {

class DeviceRows final : public ResidualRows {
 public:
  DeviceRows(Owned rows, cudaStream_t stream) : rows_(std::move(rows)), stream_(stream) {}

  Tensor load(int64_t row, int64_t n) override { return rows_.view.rows(row, n); }
  void expect(int64_t, int64_t) override {}
  void save(int64_t row, const Tensor& x) override;
  Tensor on_host() override;
  void take_host() override;

 private:
  Owned rows_;  // [tokens, hidden]
  cudaStream_t stream_;
  Storage host_;  // a copy, once somebody asked
};

class PinnedRows final : public ResidualRows {
 public:
  /// stages: two tensors of the device with room for the rows of any batch.
  PinnedRows(const ResidualShape& shape, DType dtype, std::array<Owned, 2> stages, cudaStream_t compute);
  ~PinnedRows() override;

  Tensor load(int64_t row, int64_t n) override;
  void expect(int64_t row, int64_t n) override;
  void save(int64_t row, const Tensor& x) override;
  Tensor on_host() override;
  void take_host() override;

 private:
  /// Takes turns: rows come in, are read, are overwritten with what they became, and go out.
  struct Stage {
    Owned memory;                  // [most rows of a batch, hidden]
    int64_t row = -1, n = 0;       // what it holds, or will; -1: nothing of use
    Event filled = make_event();   // rows have come in
    Event emptied = make_event();  // and gone out
  };
  void fill(Stage& stage, int64_t row, int64_t n);
  void forget(int64_t row, int64_t n);

  PinnedBytes memory_;
  Tensor rows_;  // [tokens, hidden], host
  cudaStream_t compute_;
  Stream copies_;
  Event worked_;  // the compute stream is done with what was queued
  std::array<Stage, 2> stages_;
  size_t current_ = 0;
  bool loaded_ = false;  // the current stage has not been saved to
};

}  // namespace kvcal::cuda
