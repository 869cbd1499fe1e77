#include "ops/column_norms.h"

#include <cmath>

namespace kvcal {
namespace {

/// sums[c] += factor(r) · x[r, c]² over the rows [first, first + n) of x.
template <class Factor>
void add_squares(const Tensor& x, int64_t first, int64_t n, Factor factor, double* sums) {
  const int64_t columns = x.dim(1);
  std::vector<float> row(static_cast<size_t>(columns));
  for (int64_t r = first; r < first + n; ++r) {
    convert_to_float(x.dtype, x.rows(r, 1).data, row.data(), row.size());
    const double f = factor(r);
    for (int64_t c = 0; c < columns; ++c) {
      const auto value = static_cast<double>(row[static_cast<size_t>(c)]);
      sums[c] += f * value * value;
    }
  }
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
