// Panel products through Eigen, in f32; bf16 operands are widened, so that their products are exact.
#define EIGEN_DONT_PARALLELIZE  // one panel, one thread
#define EIGEN_MPL2_ONLY
#include <Eigen/Core>
#include <cstring>

#include "ops/cpu/math.h"
#include "ops/cpu/panel_product.h"

namespace kvcal::cpu {
namespace {

void widen(const bf16* from, float* to, int64_t n) {
  for (int64_t i = 0; i < n; i += kLanes) store(to + i, load(from + i, n - i), n - i);
}

class EigenProduct final : public PanelProduct {
 public:
  explicit EigenProduct(const PanelShape& shape) : PanelProduct(shape), n_(shape.n), k_(shape.k) {}

  size_t packed_bytes() const override { return static_cast<size_t>(n_ * k_) * size_of(shape().activation); }
  void pack(const void* w, void* packed) const override { std::memcpy(packed, w, packed_bytes()); }

  size_t scratch_bytes(int64_t rows, bool) const override {
    return shape().activation == DType::BF16 ? static_cast<size_t>((n_ + rows) * k_) * sizeof(float) : 0;
  }

  void run(int64_t rows, const void* x, const void* packed, float* y, bool accumulate, void* scratch) const override {
    if (shape().activation == DType::F32)
      return multiply(rows, static_cast<const float*>(x), shape().x_stride, static_cast<const float*>(packed), y,
                      accumulate);
    float* w = static_cast<float*>(scratch);
    float* wide_x = w + n_ * k_;
    widen(static_cast<const bf16*>(packed), w, n_ * k_);
    for (int64_t r = 0; r < rows; ++r) widen(static_cast<const bf16*>(x) + r * shape().x_stride, wide_x + r * k_, k_);
    multiply(rows, wide_x, k_, w, y, accumulate);
  }

 private:
  // yᵀ [n, rows] = W xᵀ with column-major operands: tokens are columns, which Eigen's kernel takes four at a time, each
  // column on its own; were they rows, a token's arithmetic would depend on its place in a register.
  void multiply(int64_t rows, const float* x, int64_t x_stride, const float* w, float* y, bool accumulate) const {
    using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    const Eigen::Map<const RowMajor> weight(w, n_, k_);
    const Eigen::Map<const Eigen::MatrixXf, 0, Eigen::OuterStride<>> columns(x, k_, rows,
                                                                             Eigen::OuterStride<>(x_stride));
    Eigen::Map<Eigen::MatrixXf> result(y, n_, rows);
    if (!accumulate) result.setZero();
    result.noalias() += weight * columns;
  }

  int64_t n_, k_;
};

class EigenProducts final : public PanelProducts {
 public:
  EigenProducts() {
    // Eigen cuts k by the size of the caches that it finds: with fixed sizes the bytes are those of every machine.
    Eigen::setCpuCacheSizes(32 << 10, 512 << 10, 4 << 20);
  }

  std::string isa() const override {
#ifdef __AVX2__
    return "avx2";
#else
    return "portable";
#endif
  }

 private:
  std::shared_ptr<const PanelProduct> make(const PanelShape& shape) override {
    return std::make_shared<EigenProduct>(shape);
  }
};

}  // namespace

std::unique_ptr<PanelProducts> make_eigen_products() { return std::make_unique<EigenProducts>(); }

}  // namespace kvcal::cpu
