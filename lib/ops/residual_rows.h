// The residual stream of some sequences between layers: one row per token, in the activation dtype, kept by a backend.
#pragma once

#include "tensor/tensor.h"

namespace kvcal {

class Ops;

class ResidualRows {
 public:
  virtual ~ResidualRows() = default;

  /// Rows [row, row + n) as ops read them, [n, hidden], until the next end_batch().
  virtual Tensor load(int64_t row, int64_t n) = 0;

  /// Which rows the next load() will ask for, so that they can be fetched while these are worked on. A guess.
  virtual void expect(int64_t row, int64_t n) = 0;

  /// x becomes rows [row, row + rows of x).
  virtual void save(int64_t row, const Tensor& x) = 0;

  /// All rows in host memory, [tokens, hidden], as they are now; what is written there counts after take_host().
  virtual Tensor on_host() = 0;
  virtual void take_host() = 0;
};

/// Rows in the host's memory, for any backend: upload() and download().
class HostRows final : public ResidualRows {
 public:
  HostRows(Ops& op, int64_t n_tokens, int64_t hidden);

  Tensor load(int64_t row, int64_t n) override;
  void expect(int64_t, int64_t) override {}
  void save(int64_t row, const Tensor& x) override;
  Tensor on_host() override { return rows_.tensor(); }
  void take_host() override {}

 private:
  Ops& op_;
  Storage rows_;  // [tokens, hidden]
};

}  // namespace kvcal
