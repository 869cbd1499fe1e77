#include "evaluate/row_errors.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor/dtype.h"

namespace kvcal {
namespace {

constexpr int32_t kNotFinite = std::numeric_limits<int32_t>::max();
constexpr int kBits = 32;

double element(const Tensor& t, int64_t i) {
  return static_cast<double>(t.dtype == DType::BF16 ? to_float(t.as<bf16>()[i]) : t.as<float>()[i]);
}

/// The sites that rows shown as this one consist of, in order of their channels.
std::span<const CacheSite> parts_of(CacheSite site) {
  static constexpr CacheSite kAll[] = {CacheSite::Key, CacheSite::Value, CacheSite::Latent, CacheSite::Rope};
  return std::span(kAll).subspan(site == CacheSite::Key     ? 0
                                 : site == CacheSite::Value ? 1
                                                            : 2,
                                 site == CacheSite::Latent ? 2 : 1);
}

}  // namespace

void UnorderedSum::add(double x) {
  if (x == 0) return;
  if (!std::isfinite(x)) {
    ++parts_[kNotFinite];
    return;
  }
  const int exponent = std::ilogb(x);
  parts_[exponent] += static_cast<uint64_t>(std::llround(std::scalbn(x, kBits - exponent)));
}

void UnorderedSum::add(const UnorderedSum& other) {
  for (const auto& [exponent, sum] : other.parts_) parts_[exponent] += sum;
}

double UnorderedSum::value() const {
  double all = 0;
  for (const auto& [exponent, sum] : parts_)
    all += exponent == kNotFinite ? std::numeric_limits<double>::infinity()
                                  : std::scalbn(static_cast<double>(sum), exponent - kBits);
  return all;
}

void RowErrors::add_part(const Head& of, const Tensor& rows, const Tensor& stored, int64_t from, int64_t width) {
  Squares& squares = heads_[of];
  for (int64_t t = 0; t < rows.dim(0); ++t) {
    const int64_t first = (t * rows.dim(1) + of.head) * rows.dim(2) + from;
    double square = 0, error = 0;
    for (int64_t c = first; c < first + width; ++c) {
      const double x = element(rows, c), off = element(stored, c) - x;
      square += x * x;
      error += off * off;
    }
    squares.rows.add(square);
    squares.errors.add(error);
  }
}

void RowErrors::add(const KvLayout& layout, CacheSite site, const Tensor& rows, const Tensor& stored) {
  int64_t from = 0;
  for (const CacheSite part : parts_of(site)) {
    const int64_t width = width_of(layout, part);
    for (int32_t head = 0; head < rows.dim(1); ++head) add_part({layout.cache, part, head}, rows, stored, from, width);
    from += width;
  }
}

void RowErrors::add(const RowErrors& other) {
  for (const auto& [head, squares] : other.heads_) {
    heads_[head].rows.add(squares.rows);
    heads_[head].errors.add(squares.errors);
  }
}

std::optional<double> RowErrors::of(int cache, CacheSite site) const {
  std::optional<double> worst;
  for (const auto& [head, squares] : heads_) {
    if (head.cache != cache || std::ranges::count(parts_of(site), head.site) == 0) continue;
    const double rows = squares.rows.value(), errors = squares.errors.value();
    const double error = errors == 0 ? 0 : std::isinf(errors) ? errors : std::sqrt(errors / rows);
    worst = std::max(worst.value_or(0), error);
  }
  return worst;
}

std::vector<int64_t> RowErrors::numbers() const {
  std::vector<int64_t> all;
  for (const auto& [head, squares] : heads_)
    for (const UnorderedSum* sum : {&squares.rows, &squares.errors})
      for (const auto& [exponent, part] : sum->parts())
        all.insert(all.end(), {head.cache, static_cast<int64_t>(head.site), head.head, sum == &squares.errors ? 1 : 0,
                               exponent, static_cast<int64_t>(part)});
  return all;
}

RowErrors RowErrors::of_numbers(std::span<const int64_t> numbers) {
  RowErrors all;
  for (size_t i = 0; i + kNumbers <= numbers.size(); i += kNumbers) {
    const auto n = numbers.subspan(i, kNumbers);
    Squares& squares = all.heads_[{static_cast<int>(n[0]), static_cast<CacheSite>(n[1]), static_cast<int32_t>(n[2])}];
    (n[3] == 1 ? squares.errors : squares.rows).add(static_cast<int32_t>(n[4]), static_cast<uint64_t>(n[5]));
  }
  return all;
}

}  // namespace kvcal
