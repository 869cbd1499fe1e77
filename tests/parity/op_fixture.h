// What the parity tests share: made-up inputs, results as doubles, comparisons that print the worst element.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "ops/cpu/cpu_ops.h"
#include "ops/ops.h"
#include "tensor/dtype.h"

namespace kvcal::test {

/// Outliers: one column a thousand times the rest. Denormals: values near 1e-39 among ordinary ones.
enum class Fill { Normal, Outliers, Zeros, Denormals };

inline const char* name_of(Fill fill) {
  constexpr const char* kNames[] = {"normal", "outliers", "zeros", "denormals"};
  return kNames[static_cast<size_t>(fill)];
}

inline std::unique_ptr<Ops> cpu(Precision precision, int threads = 2, bool poison = true) {
  return make_cpu_ops({precision, threads, poison});
}

/// A host tensor that owns its memory, and the same values as double, after rounding to its dtype.
struct Values {
  Storage storage;
  std::vector<double> real;

  const Tensor& tensor() const { return storage.tensor(); }
  operator const Tensor&() const { return storage.tensor(); }
};

inline Values values(const Shape& shape, DType dtype, const std::vector<double>& from) {
  Values v{Storage(shape, dtype), std::vector<double>(from.size())};
  for (size_t i = 0; i < from.size(); ++i) {
    const auto x = static_cast<float>(from[i]);
    if (dtype == DType::BF16) {
      v.storage.tensor().as<bf16>()[i] = to_bf16(x);
      v.real[i] = to_float(to_bf16(x));
    } else {
      v.storage.tensor().as<float>()[i] = x;
      v.real[i] = x;
    }
  }
  return v;
}

inline Values random_values(const Shape& shape, DType dtype, uint32_t seed, Fill fill = Fill::Normal,
                            double sigma = 1.0) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0.0, sigma);
  std::vector<double> x(static_cast<size_t>(shape.elements()));
  const auto width = static_cast<size_t>(std::max<int64_t>(1, shape.rank() > 0 ? shape[-1] : 1));
  for (size_t i = 0; i < x.size(); ++i) {
    const double r = normal(random);
    x[i] = r;
    if (fill == Fill::Zeros) x[i] = 0.0;
    if (fill == Fill::Outliers && i % width == width / 3) x[i] = 1000.0 * r;
    if (fill == Fill::Denormals && i % 3 == 0) x[i] = 1e-39 * r;
  }
  return values(shape, dtype, x);
}

/// What this program tests: the CPU backend, or the CUDA backend in the emulator (cpu_backend.cpp, cuda_backend.cpp).
/// Takes tensors in host memory, as Values are, and fills forgotten temporaries with NaN.
std::unique_ptr<Ops> backend(Precision precision);

/// A copy of a result of backend(), which may be in device memory.
Storage on_host(const Tensor& t);

inline std::vector<double> read(const Tensor& result) {
  const Storage copy = on_host(result);
  const Tensor& t = copy.tensor();
  std::vector<double> x(static_cast<size_t>(t.elements()));
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = t.dtype == DType::BF16 ? double{to_float(t.as<bf16>()[i])} : double{t.as<float>()[i]};
  return x;
}

inline std::string bytes_of(const Tensor& t) {
  const Storage copy = on_host(t);
  return std::string(static_cast<const char*>(copy.tensor().data), t.bytes());
}

/// |actual - expected| <= relative * |expected| + absolute * (largest |expected|), element by element.
struct Tolerance {
  double relative, absolute;
};

/// One rounding to the activation dtype of a result whose own error is `inner` times the largest value.
inline Tolerance one_rounding(Precision p, double inner) {
  return {p == Precision::BF16 ? 0x1p-8 * 1.01 : 0x1p-24 * 1.01, inner};
}

inline void expect_close(const char* what, const std::vector<double>& actual, const std::vector<double>& expected,
                         const Tolerance& t) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  constexpr double kSubnormal = 0x1p-133;  // spacing of bf16 near zero
  double top = 0.0, worst = 0.0;
  for (const double e : expected) top = std::max(top, std::fabs(e));
  size_t at = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    if (std::isnan(expected[i]) && std::isnan(actual[i])) continue;
    const double bound = t.relative * std::fabs(expected[i]) + t.absolute * top + kSubnormal;
    const double excess = std::isfinite(actual[i]) || actual[i] == expected[i]
                              ? std::fabs(actual[i] - expected[i]) / bound
                              : std::numeric_limits<double>::infinity();
    if (actual[i] != expected[i] && excess > worst) {
      worst = excess;
      at = i;
    }
  }
  EXPECT_LE(worst, 1.0) << what << ": worst element " << at << " of " << actual.size() << ": " << actual[at]
                        << ", expected " << expected[at] << ", " << worst << " times the bound (relative " << t.relative
                        << ", absolute " << t.absolute << " of " << top << ")";
}

inline double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
inline double round_to(Precision p, double x) {
  const auto f = static_cast<float>(x);
  return p == Precision::BF16 ? round_to_bf16(f) : f;
}

inline std::vector<KvRows*> no_rows(size_t n) { return std::vector<KvRows*>(n, nullptr); }

}  // namespace kvcal::test

namespace kvcal {
/// For the names of tests.
inline void PrintTo(Precision p, std::ostream* out) { *out << (p == Precision::BF16 ? "bf16" : "f32"); }
}  // namespace kvcal
