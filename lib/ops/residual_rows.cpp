#include "ops/residual_rows.h"

#include "ops/ops.h"

namespace kvcal {

HostRows::HostRows(Ops& op, int64_t n_tokens, int64_t hidden)
    : op_(op), rows_({n_tokens, hidden}, op.activation_dtype()) {}

Tensor HostRows::load(int64_t row, int64_t n) { return op_.upload(rows_.tensor().rows(row, n)); }

void HostRows::save(int64_t row, const Tensor& x) { op_.download(x, rows_.tensor().rows(row, x.dim(0))); }

std::unique_ptr<ResidualRows> Ops::residual_rows(const ResidualShape& shape, ResidualPlace) {
  return std::make_unique<HostRows>(*this, shape.n_tokens, shape.hidden);
}

}  // namespace kvcal
