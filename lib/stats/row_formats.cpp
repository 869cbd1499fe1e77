#include "stats/row_formats.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "ops/four_bit_rows.h"
#include "ops/rotation_signs.h"
#include "tensor/dtype.h"

namespace kvcal {
namespace {

constexpr int16_t kInfinityBits = 0x7F80;
constexpr size_t kBlock = 16;
constexpr double kUnit = 0x1p-32;  // of a row's power of two

double power_of_two(int exponent) { return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52); }

/// The nearest number with so many bits of mantissa, ties to even, saturating. `steps` is a number whose last bit is
/// the step below smallest_normal: adding it leaves no room for less. Positive floats are compared as integers, and
/// both ways are gone, so that loops over this become vector instructions.
template <int kMantissaBits>
float rounded(float y, float smallest_normal, float steps, float max) {
  constexpr int32_t kDropped = 23 - kMantissaBits, kHalf = (1 << (kDropped - 1)) - 1;
  const auto bits = std::bit_cast<int32_t>(y), size = bits & 0x7FFFFFFF;
  const int32_t normal = (size + kHalf + (size >> kDropped & 1)) & -(1 << kDropped);
  const auto subnormal = std::bit_cast<int32_t>((std::bit_cast<float>(size) + steps) - steps);
  const int32_t is_subnormal = -static_cast<int32_t>(size < std::bit_cast<int32_t>(smallest_normal));
  const int32_t unbounded = (subnormal & is_subnormal) | (normal & ~is_subnormal);
  return std::bit_cast<float>(std::min(unbounded, std::bit_cast<int32_t>(max)) | (bits ^ size));
}

float to_e4m3(float y) { return rounded<3>(y, 0x1p-6f, 0x1.8p14f, 448); }
float to_e2m1(float y) { return rounded<1>(y, 1, 0x1.8p22f, 6); }

/// n values as they come back.
void store_as_e4m3(const float* x, float* stored, size_t n, float scale) {
  for (size_t c = 0; c < n; ++c) stored[c] = to_e4m3(x[c] / scale) * scale;
}
void store_as_e2m1(const float* x, float* stored, size_t n, float scale) {
  for (size_t c = 0; c < n; ++c) stored[c] = to_e2m1(x[c] / scale) * scale;
}

/// One row, in units of the power of two below its absmax: absmax lies in [1, 2).
class Row {
 public:
  Row(size_t width, bool tries_int4)
      : codes_(width), x_(width), dynamic_(width), nvfp4_(width), int4_(tries_int4 ? width : 0) {}

  /// False when the row is not finite.
  bool load(const Tensor& x, int64_t first) {
    if (x.dtype == DType::BF16)
      std::copy_n(x.as<bf16>() + first, codes_.size(), codes_.data());
    else
      convert_to_bf16(x.dtype, x.as<float>() + first, codes_.data(), codes_.size());
    int16_t largest = 0;  // codes without their sign
    for (const bf16 code : codes_) largest = std::max(largest, static_cast<int16_t>(code.bits & 0x7FFF));
    if (largest >= kInfinityBits) return false;
    const auto absmax = static_cast<double>(to_float(bf16{static_cast<uint16_t>(largest)}));
    exponent_ = largest == 0 ? 0 : std::ilogb(absmax);
    unit_ = power_of_two(-exponent_);
    for (size_t c = 0; c < x_.size(); ++c) x_[c] = static_cast<float>(static_cast<double>(to_float(codes_[c])) * unit_);
    absmax_ = static_cast<float>(absmax * unit_);
    return true;
  }

  void round() {
    if (absmax_ == 0) return;
    store_as_e4m3(x_.data(), dynamic_.data(), x_.size(), absmax_ / 448);
    for (size_t from = 0; from < x_.size(); from += kBlock) round_block(from, std::min(kBlock, x_.size() - from));
    round_to_int4();
  }

  /// Of the channels [from, from + width).
  RowFormatSum sums(int64_t from, int64_t width) const {
    double energy = 0, dynamic_error = 0, nvfp4_error = 0, int4_error = 0;
    for (auto c = static_cast<size_t>(from); c < static_cast<size_t>(from + width); ++c) {
      const double x = x_[c], by_dynamic = static_cast<double>(dynamic_[c]) - x,
                   by_nvfp4 = static_cast<double>(nvfp4_[c]) - x;
      energy += x * x;
      dynamic_error += by_dynamic * by_dynamic;
      nvfp4_error += by_nvfp4 * by_nvfp4;
      if (int4_.empty()) continue;
      const double by_int4 = static_cast<double>(int4_[c]) * unit_ - x;
      int4_error += by_int4 * by_int4;
    }
    RowFormatSum sum;
    sum.rows = 1;
    if (!int4_.empty()) sum.int4_error = 0;
    if (energy == 0) return sum;
    const int exponent = std::ilogb(energy);
    const double steps = power_of_two(-exponent) / kUnit;
    sum.octave = 1023 + exponent + 2 * exponent_;
    // Every format has a zero, so no rounding to the nearest moves a value by more than itself. What is turned moves a
    // little more, and is NaN where its sums overflow: lost as well.
    sum.energy = static_cast<uint64_t>(std::llround(energy * steps));
    sum.dynamic_error = static_cast<uint64_t>(std::llround(std::min(dynamic_error, energy) * steps));
    sum.nvfp4_error = static_cast<uint64_t>(std::llround(std::min(nvfp4_error, energy) * steps));
    if (!int4_.empty()) sum.int4_error = static_cast<uint64_t>(std::llround(std::min(energy, int4_error) * steps));
    return sum;
  }

 private:
  void round_block(size_t from, size_t n) {
    const float* x = x_.data() + from;
    float largest = 0;
    for (size_t c = 0; c < n; ++c) largest = std::max(largest, std::fabs(x[c]));
    constexpr float kGlobalScale = 2.0f / (6 * 448);
    const float scale = to_e4m3(largest / 6 / kGlobalScale) * kGlobalScale;
    if (scale > 0)
      store_as_e2m1(x, nvfp4_.data() + from, n, scale);
    else
      std::fill_n(nvfp4_.data() + from, n, 0.0f);
  }

  /// In the row's own magnitude: the smallest step does not follow it.
  void round_to_int4() {
    for (size_t c = 0; c < int4_.size(); ++c) int4_[c] = to_float(codes_[c]);
    round_to_rotated_int4(int4_, DType::BF16);
  }

  std::vector<bf16> codes_;
  std::vector<float> x_, dynamic_, nvfp4_;
  std::vector<float> int4_;  // not in units; empty where it is not tried
  int exponent_ = 0;
  double unit_ = 1;  // 2^-exponent_
  float absmax_ = 0;
};

}  // namespace

void add(RowFormatSum& a, const RowFormatSum& b) {
  a.rows += b.rows;
  a.energy += b.energy;
  a.dynamic_error += b.dynamic_error;
  a.nvfp4_error += b.nvfp4_error;
  a.int4_error = a.int4_error && b.int4_error ? std::optional(*a.int4_error + *b.int4_error) : std::nullopt;
}

RowFormatEnergies energies_of(std::span<const RowFormatSum> sums, int32_t head) {
  RowFormatEnergies all;
  for (const RowFormatSum& s : sums) {
    if (s.head != head) continue;
    all.rows += s.rows;
    if (!s.int4_error) all.int4_error.reset();
    if (s.octave == 0) continue;
    const double unit = power_of_two(s.octave - 1023) * kUnit;
    all.energy += static_cast<double>(s.energy) * unit;
    all.dynamic_error += static_cast<double>(s.dynamic_error) * unit;
    all.nvfp4_error += static_cast<double>(s.nvfp4_error) * unit;
    if (all.int4_error) *all.int4_error += static_cast<double>(*s.int4_error) * unit;
  }
  return all;
}

void RowFormatTables::add(const Tensor& x, std::span<const int32_t> rows, std::span<const int64_t> part_widths,
                          ThreadPool& pool) {
  if (rows.empty()) return;
  const int64_t n_heads = x.dim(1), width = x.dim(2);
  const bool tries_int4 = part_widths.size() == 1 && rotated_together(width) <= kMostRotated;
  sums_.resize(static_cast<size_t>(n_heads), std::vector<Sums>(part_widths.size()));
  pool.parallel_for(n_heads, [&](int64_t head, int) {
    Row row(static_cast<size_t>(width), tries_int4);
    for (const int32_t r : rows) {
      if (!row.load(x, (r * n_heads + head) * width)) continue;
      row.round();
      int64_t from = 0;
      for (size_t part = 0; part < part_widths.size(); from += part_widths[part++]) {
        RowFormatSum sum = row.sums(from, part_widths[part]);
        sum.head = static_cast<int32_t>(head);
        Sums& sums = sums_[static_cast<size_t>(head)][part];
        if (const auto [kept, is_new] = sums.try_emplace(sum.octave, sum); !is_new) kvcal::add(kept->second, sum);
      }
    }
  });
}

std::vector<RowFormatSum> RowFormatTables::encode(size_t part) const {
  std::vector<RowFormatSum> all;
  for (const std::vector<Sums>& head : sums_)
    for (const auto& [octave, sum] : head[part]) all.push_back(sum);
  return all;
}

}  // namespace kvcal
