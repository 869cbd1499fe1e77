#include "evaluate/moved_rows.h"

#include <bit>
#include <cmath>

#include "ops/rotation_signs.h"

namespace kvcal {

float turned_by(int64_t width) {
  const int log2 = std::countr_zero(static_cast<uint64_t>(rotated_together(width)));
  return std::ldexp(1.0f, -(log2 / 2));
}

namespace {

/// Ones on the diagonal.
Storage unit_matrix(int64_t dim) {
  Storage matrix({dim, dim}, DType::F32);
  auto* to = matrix.tensor().as<float>();
  for (int64_t i = 0; i < dim * dim; ++i) to[i] = i % (dim + 1) == 0 ? 1.0f : 0.0f;
  return matrix;
}

/// Blocks on the diagonal, symmetric, of ± factor.
Storage hadamard(int64_t dim, float factor) {
  const int64_t together = rotated_together(dim);
  Storage matrix({dim, dim}, DType::F32);
  auto* to = matrix.tensor().as<float>();
  for (int64_t i = 0; i < dim; ++i)
    for (int64_t j = 0; j < dim; ++j) {
      const bool is_odd = std::popcount(static_cast<uint64_t>(i % together) & static_cast<uint64_t>(j % together)) % 2;
      to[i * dim + j] = i / together != j / together ? 0.0f : is_odd ? -factor : factor;
    }
  return matrix;
}

std::pair<Linear, Linear> matrices_of(Moved moved, int64_t dim, Ops& op) {
  if (moved == Moved::ByMeans) {
    const Linear unit = op.load_linear(unit_matrix(dim).tensor());
    return {unit, unit};
  }
  const float factor = turned_by(dim), inverse = 1.0f / (factor * static_cast<float>(rotated_together(dim)));
  return {op.load_linear(hadamard(dim, factor).tensor()), op.load_linear(hadamard(dim, inverse).tensor())};
}

Owned means_of_head(const SiteRounding& rounding, int64_t head, int64_t dim, float sign, Ops& op) {
  Storage means({dim}, DType::F32);
  for (int64_t c = 0; c < dim; ++c)
    means.tensor().as<float>()[c] = sign * rounding.means[static_cast<size_t>(head * dim + c)];
  return op.load_f32(means.tensor());
}

}  // namespace

MovedRows::MovedRows(const SiteRounding& rounding, int64_t heads, int64_t dim, MovingMatrices& matrices, Ops& op)
    : op_(op) {
  auto& both = matrices[{rounding.moved, dim}];
  if (!both.first) both = matrices_of(rounding.moved, dim, op);
  there_.assign(static_cast<size_t>(heads), both.first);
  back_.assign(static_cast<size_t>(heads), both.second);
  if (rounding.moved != Moved::ByMeans) return;
  for (int64_t h = 0; h < heads; ++h) {
    there_[static_cast<size_t>(h)].bias = means_of_head(rounding, h, dim, -1.0f, op);
    back_[static_cast<size_t>(h)].bias = means_of_head(rounding, h, dim, 1.0f, op);
  }
}

}  // namespace kvcal
