// Rows of a KV cache as they are stored and read back.
#include "ops/cache_rounding.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "ops/cpu/activation_value.h"
#include "ops/cpu/cpu_backend.h"
#include "ops/four_bit_rows.h"
#include "tensor/small_floats.h"

namespace kvcal::cpu {
namespace {

template <CacheFormat kFormat>
float rounded(float x) {
  switch (kFormat) {
    case CacheFormat::E4m3:
    case CacheFormat::IndexKey:
      return round_to_e4m3(x);
    case CacheFormat::E4m3Fnuz:
      return round_to_e4m3fnuz(x);
    case CacheFormat::E5m2:
      return round_to_e5m2(x);
    case CacheFormat::Int8:
      return round_to_int8(x);
    case CacheFormat::Nvfp4:
      return round_to_e2m1(x);
    case CacheFormat::Uint4:
    case CacheFormat::RotatedInt4:
      break;  // not number by number
  }
  return x;
}

/// The least power of two that is not below x, a normal number.
float power_of_two_from(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>((bits + 0x7FFFFFu) & 0x7F800000u);
}

/// The scales of a row of one head: one for all its channels (step 0), or one for each (step 1).
struct RowScales {
  const float *write, *read;
  int64_t step;
};

RowScales scales_of(const CacheRounding& rounding, int64_t heads, int64_t head, int64_t dim) {
  const int64_t n = rounding.write.elements();
  const int64_t first = n == 1 ? 0 : n == heads ? head : head * dim;
  return {rounding.write.as<float>() + first, rounding.read.as<float>() + first, n > heads ? 1 : 0};
}

template <CacheFormat kFormat, class T>
void store_row(const T* x, T* y, int64_t dim, const RowScales& s) {
  for (int64_t c = 0; c < dim; ++c)
    y[c] = narrowed<T>(rounded<kFormat>(widened(x[c]) / s.write[c * s.step]) * s.read[c * s.step]);
}

template <CacheFormat kFormat>
float dynamic_scale(float absmax) {
  if (kFormat == CacheFormat::IndexKey) return power_of_two_from(std::max(absmax, kLeastIndexKey) / 448.0f);
  return absmax > 0.0f ? absmax / largest_of(kFormat) : 1.0f;
}

template <CacheFormat kFormat, class T>
void store_row_dynamic(const T* x, T* y, int64_t dim) {
  const float scale = dynamic_scale<kFormat>(absmax_of(x, dim));
  store_row<kFormat>(x, y, dim, {&scale, &scale, 0});
}

template <class T>
void store_row_in_blocks(const T* x, T* y, int64_t dim, const RowScales& s) {
  for (int64_t c = 0; c < dim; c += kNvfp4Block) {
    const float block = round_to_e4m3(absmax_of(x + c, kNvfp4Block) / largest_of(CacheFormat::Nvfp4) / *s.write);
    const float write = *s.write * block, read = *s.read * block;
    for (int64_t i = c; i < c + kNvfp4Block; ++i)
      y[i] = narrowed<T>(write == 0.0f ? 0.0f : round_to_e2m1(widened(x[i]) / write) * read);
  }
}

template <CacheFormat kFormat, class T>
void store_row_in_four_bits(const T* x, T* y, int64_t dim) {
  thread_local std::vector<float> row;
  row.resize(static_cast<size_t>(dim));
  for (int64_t c = 0; c < dim; ++c) row[static_cast<size_t>(c)] = widened(x[c]);
  if (kFormat == CacheFormat::Uint4)
    round_to_uint4(row);
  else
    round_to_rotated_int4(row, sizeof(T) == sizeof(bf16) ? DType::BF16 : DType::F32);
  for (int64_t c = 0; c < dim; ++c) y[c] = narrowed<T>(row[static_cast<size_t>(c)]);
}

template <CacheFormat kFormat, class T>
void store(const T* x, T* y, int64_t dim, const CacheRounding& rounding, int64_t heads, int64_t head) {
  if constexpr (in_four_bits(kFormat))
    store_row_in_four_bits<kFormat>(x, y, dim);
  else if constexpr (kFormat == CacheFormat::Nvfp4)
    store_row_in_blocks(x, y, dim, scales_of(rounding, heads, head, dim));
  else if (rounding.is_dynamic())
    store_row_dynamic<kFormat>(x, y, dim);
  else
    store_row<kFormat>(x, y, dim, scales_of(rounding, heads, head, dim));
}

/// f(std::integral_constant) for the format.
template <class F>
void visit_format(CacheFormat format, F f) {
  switch (format) {
    case CacheFormat::E4m3:
      return f(std::integral_constant<CacheFormat, CacheFormat::E4m3>());
    case CacheFormat::E4m3Fnuz:
      return f(std::integral_constant<CacheFormat, CacheFormat::E4m3Fnuz>());
    case CacheFormat::E5m2:
      return f(std::integral_constant<CacheFormat, CacheFormat::E5m2>());
    case CacheFormat::Int8:
      return f(std::integral_constant<CacheFormat, CacheFormat::Int8>());
    case CacheFormat::Nvfp4:
      return f(std::integral_constant<CacheFormat, CacheFormat::Nvfp4>());
    case CacheFormat::Uint4:
      return f(std::integral_constant<CacheFormat, CacheFormat::Uint4>());
    case CacheFormat::RotatedInt4:
      return f(std::integral_constant<CacheFormat, CacheFormat::RotatedInt4>());
    case CacheFormat::IndexKey:
      return f(std::integral_constant<CacheFormat, CacheFormat::IndexKey>());
  }
}

}  // namespace

Tensor CpuBackend::do_round_cache(const Tensor& x, const CacheRounding& rounding) {
  const Tensor y = activation(x.shape);
  const int64_t heads = x.dim(1), dim = x.dim(2);
  visit_activation(x.dtype, [&](auto tag) {
    using T = decltype(tag);
    visit_format(rounding.format, [&](auto format) {
      parallel_rows(x.dim(0) * heads, dim, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r)
          store<format()>(x.as<T>() + r * dim, y.as<T>() + r * dim, dim, rounding, heads, r % heads);
      });
    });
  });
  return y;
}

}  // namespace kvcal::cpu
