#include "ops/column_norms.h"

#include <algorithm>
#include <cmath>

#include "tensor/encoded_weight.h"

namespace kvcal {
namespace {

/// Calls use(r, values of row r) for the rows [first, first + n) of x, in order.
template <class Use>
void each_row(const Tensor& x, int64_t first, int64_t n, Use use) {
  constexpr int64_t kDecoded = 64;  // rows at a time
  const int64_t columns = x.dim(1);
  std::vector<float> row(static_cast<size_t>(columns));
  const bool stored = x.device == Device::Stored;
  for (int64_t from = first; from < first + n; from += kDecoded) {
    const Tensor rows = x.rows(from, std::min(kDecoded, first + n - from));
    const Storage memory = stored ? decoded(rows) : Storage();
    for (int64_t r = 0; r < rows.dim(0); ++r) {
      convert_to_float(x.dtype, (stored ? memory.tensor() : rows).rows(r, 1).data, row.data(), row.size());
      use(from + r, row);
    }
  }
}

/// sums[c] += factor(r) · x[r, c]² over the rows [first, first + n) of x.
template <class Factor>
void add_squares(const Tensor& x, int64_t first, int64_t n, Factor factor, double* sums) {
  each_row(x, first, n, [&](int64_t r, const std::vector<float>& row) {
    const double f = factor(r);
    for (size_t c = 0; c < row.size(); ++c) {
      const auto value = static_cast<double>(row[c]);
      sums[c] += f * value * value;
    }
  });
}

}  // namespace

std::vector<float> column_norms(const Tensor& weight, const Tensor& expansion, int64_t n_heads) {
  std::vector<double> squares(static_cast<size_t>(weight.dim(1)));
  add_squares(
      weight, 0, weight.dim(0), [](int64_t) { return 1.0; }, squares.data());
  if (expansion) {
    const int64_t rank = expansion.dim(1), width = expansion.dim(0) / n_heads;
    std::vector<double> latent(static_cast<size_t>(n_heads * rank));
    for (int64_t head = 0; head < n_heads; ++head)
      add_squares(
          expansion, head * width, width, [&](int64_t r) { return squares[static_cast<size_t>(r)]; },
          latent.data() + head * rank);
    squares = std::move(latent);
  }
  std::vector<float> norms;
  for (const double square : squares) norms.push_back(static_cast<float>(std::sqrt(square)));
  return norms;
}

}  // namespace kvcal
