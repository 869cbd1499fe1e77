// How far the rows of a cache themselves are off, as they come back against as they were: of the keys and values that a
// variant stores, layer by layer, what `kvcal stats` says of plain formats.
//
// The rows are those that attention is sampled on (stats/attention_sampler.h), so of short prompts all. Sums of a row
// are kept to 33 bits and are exact from there on: they do not depend on the order of rows, on threads or batches.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "stats/statistics.h"
#include "tensor/tensor.h"

namespace kvcal {

/// Of numbers that are not negative, by their power of two.
class UnorderedSum {
 public:
  void add(double x);
  void add(int32_t exponent, uint64_t sum) { parts_[exponent] += sum; }
  void add(const UnorderedSum& other);

  double value() const;  // infinite where one of them is not finite
  const std::map<int32_t, uint64_t>& parts() const { return parts_; }

 private:
  std::map<int32_t, uint64_t> parts_;  // of numbers in [2^e, 2^(e + 1)), in units of 2^(e - 32)
};

class RowErrors {
 public:
  /// Key, Value; of MLA rows Latent, which stands for Latent and Rope. The rows are [rows, heads, channels], on the
  /// host, BF16 or F32 both.
  void add(const KvLayout& layout, CacheSite site, const Tensor& rows, const Tensor& stored);
  void add(const RowErrors& other);

  /// Relative RMS error sqrt(Σ(x' - x)² / Σx²) of the worst head, of a latent row of the worse of its two parts;
  /// infinite where some number that comes back is not finite. None: the site is not stored otherwise.
  std::optional<double> of(int cache, CacheSite site) const;

  /// All of it in numbers, and back: so many for each part of a sum.
  static constexpr int64_t kNumbers = 6;
  std::vector<int64_t> numbers() const;
  static RowErrors of_numbers(std::span<const int64_t> numbers);

 private:
  struct Head {
    int cache = 0;
    CacheSite site = CacheSite::Key;
    int32_t head = 0;
    auto operator<=>(const Head&) const = default;
  };
  struct Squares {
    UnorderedSum rows, errors;
  };
  void add_part(const Head& of, const Tensor& rows, const Tensor& stored, int64_t from, int64_t width);

  std::map<Head, Squares> heads_;
};

}  // namespace kvcal
