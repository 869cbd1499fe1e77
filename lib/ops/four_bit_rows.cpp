#include "ops/four_bit_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "ops/cache_rounding.h"
#include "ops/rotation_signs.h"

namespace kvcal {
namespace {

/// 0 to 15; of a NaN 0.
float code_of(float x) { return std::fmin(std::fmax(std::floor(x + 0.5f), 0.0f), largest_of(CacheFormat::Uint4)); }

/// Rows of equal numbers have no step of their own.
float step_of(float least, float most, float least_step) {
  return std::fmax((most - least) / largest_of(CacheFormat::Uint4), least_step);
}

struct Range {
  float least, most;
};

Range range_of(std::span<const float> row) {
  Range range{INFINITY, -INFINITY};
  for (const float x : row) range = {std::fmin(range.least, x), std::fmax(range.most, x)};
  return range;
}

void multiply_by_signs(std::span<float> part) {
  for (size_t i = 0; i < part.size(); ++i)
    if (!(kRotationSigns.kept[i / 64] >> (i % 64) & 1)) part[i] = -part[i];
}

/// The product with a matrix of ±1 whose square is part.size() times the identity.
void hadamard(std::span<float> part) {
  for (size_t apart = 1; apart < part.size(); apart *= 2)
    for (size_t i = 0; i < part.size(); ++i) {
      if (i & apart) continue;
      const float a = part[i], b = part[i + apart];
      part[i] = a + b;
      part[i + apart] = a - b;
    }
}

template <class F>
void each_part(std::span<float> row, F f) {
  const auto together = static_cast<size_t>(rotated_together(static_cast<int64_t>(row.size())));
  for (size_t first = 0; first < row.size(); first += together) f(row.subspan(first, together));
}

void turn(std::span<float> row) {
  each_part(row, [](std::span<float> part) {
    multiply_by_signs(part);
    hadamard(part);
  });
}

void turn_back(std::span<float> row) {
  each_part(row, [](std::span<float> part) {
    hadamard(part);
    for (float& x : part) x /= static_cast<float>(part.size());
    multiply_by_signs(part);
  });
}

}  // namespace

void round_to_uint4(std::span<float> row) {
  const auto [least, most] = range_of(row);
  const float step = step_of(least, most, kLeastUint4Step);
  const float step_read = stored_as(DType::F16, step), least_read = stored_as(DType::F16, least);
  for (float& x : row) x = code_of((x - least) / step) * step_read + least_read;
}

void round_to_rotated_int4(std::span<float> row, DType activation) {
  turn(row);
  for (float& x : row) x = stored_as(activation, x);
  const auto [least, most] = range_of(row);
  const float step = step_of(least, most, kLeastInt4Step);
  const float zero = code_of(-least / step), inverse = 1.0f / step;
  const float step_read = std::bit_cast<float>(std::bit_cast<uint32_t>(step) & ~15u);
  for (float& x : row) x = (code_of(x * inverse + zero) - zero) * step_read;
  turn_back(row);
}

}  // namespace kvcal
