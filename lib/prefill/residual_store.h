// The residual stream of a group of sequences between layers: one row per token, in the activation dtype.
#pragma once

#include "ops/ops.h"
#include "tensor/tensor.h"

namespace kvcal {

class ResidualStore {
 public:
  ResidualStore(int64_t n_tokens, int64_t hidden, DType dtype) : rows_({n_tokens, hidden}, dtype) {}

  Tensor load(Ops& op, int64_t row, int64_t n) const { return op.upload(rows_.tensor().rows(row, n)); }
  void save(Ops& op, int64_t row, const Tensor& x) { op.download(x, rows_.tensor().rows(row, x.dim(0))); }
  const Tensor& rows() const { return rows_.tensor(); }  // [tokens, hidden], all of them

 private:
  Storage rows_;  // [tokens, hidden]
};

}  // namespace kvcal
