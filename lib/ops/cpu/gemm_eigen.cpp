// Panel products through Eigen, in f32; bf16 operands are widened, so that their products are exact.
#define EIGEN_DONT_PARALLELIZE  // one panel, one thread
#define EIGEN_MPL2_ONLY
#define EIGEN_STACK_ALLOCATION_LIMIT 8192  // bytes of a packed operand; by default 128 KiB, more than some stacks have
#include <Eigen/Core>
#include <algorithm>
#include <cstring>

#include "ops/cpu/math.h"
#include "ops/cpu/panel_product.h"
#include "ops/visit_activation.h"

namespace kvcal::cpu {
namespace {

constexpr int64_t kPacket = Eigen::internal::packet_traits<float>::size;  // columns in a vector of Eigen's

constexpr int64_t kStrip = 8 * kLanes;  // columns whose sums are in registers
constexpr int64_t kSteps = 8;           // along k at a time: of bf16 a page
constexpr int64_t kAhead = 2 * kSteps;  // steps from a load to its prefetch: processors do not see strips coming
constexpr uintptr_t kCacheLine = 64;    // bytes

template <class T>
void widen(const T* from, float* to, int64_t n) {
  for (int64_t i = 0; i < n; i += kLanes) store(to + i, load(from + i, n - i), n - i);
}

int64_t whole_vectors(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

/// w [n, k], which lies in a file as it likes -> packed [k, n]. Eight rows at a time: they fit into the first-level
/// cache however far they lie apart.
template <class T>
void transpose_rows(const T* w, int64_t n, int64_t k, T* packed) {
  for (int64_t r0 = 0; r0 < n; r0 += kLanes)
    for (int64_t p = 0; p < k; ++p)
      for (int64_t r = r0; r < std::min(n, r0 + kLanes); ++r) std::memcpy(packed + p * n + r, w + r * k + p, sizeof(T));
}

/// Asks for the cache lines of kVectors vectors of `w + distance`, which may lie behind its end: a prefetch never
/// faults.
template <int kVectors, class T>
void fetch_ahead(const T* w, int64_t distance) {
  const uintptr_t first = reinterpret_cast<uintptr_t>(w) + static_cast<uintptr_t>(distance) * sizeof(T);
  for (uintptr_t at = 0; at < kVectors * kLanes * sizeof(T); at += kCacheLine)
    __builtin_prefetch(reinterpret_cast<const void*>(first + at));
}

/// sums [kVectors * kLanes] += x [k] times these columns of w [k, n], of which `columns` are left.
template <int kVectors, class T>
void add_products(const float* x, int64_t k, const T* w, int64_t n, int64_t columns, float* sums) {
  F32x8 s[kVectors];
  for (int v = 0; v < kVectors; ++v) s[v] = load8(sums + v * kLanes);
  for (int64_t p = 0; p < k; ++p) {
    const F32x8 factor = splat(x[p]);
    fetch_ahead<kVectors>(w + p * n, kAhead * n);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v)
      s[v] = multiply_add(load(w + p * n + v * kLanes, columns - v * kLanes), factor, s[v]);
  }
  for (int v = 0; v < kVectors; ++v) store8(sums + v * kLanes, s[v]);
}

/// The same of all columns, but of a last vector for itself; sums [n, and room for whole vectors].
template <class T>
void add_row(const float* x, int64_t k, const T* w, int64_t n, int64_t columns, float* sums) {
  int64_t column = 0;
  for (; column + kStrip <= columns; column += kStrip) add_products<8>(x, k, w + column, n, kStrip, sums + column);
  for (; column < columns; column += kLanes) add_products<1>(x, k, w + column, n, n - column, sums + column);
}

/// Of kPacket columns. Where Eigen multiplies a vector of columns by itself, it adds up even and odd steps apart, eight
/// at a time.
template <class T>
F32x8 lonely_vector(const float* x, int64_t k, const T* w, int64_t n) {
  F32x8 even{}, odd{};
  int64_t p = 0;
  for (; p + 8 <= k; p += 8)
    for (int64_t q = p; q < p + 8; q += 2) {
      even = multiply_add(load(w + q * n, kPacket), splat(x[q]), even);
      odd = multiply_add(load(w + (q + 1) * n, kPacket), splat(x[q + 1]), odd);
    }
  even = even + odd;
  for (; p < k; ++p) even = multiply_add(load(w + p * n, kPacket), splat(x[p]), even);
  return even;
}

class EigenProduct final : public PanelProduct {
 public:
  explicit EigenProduct(const PanelShape& shape) : PanelProduct(shape), n_(shape.n), k_(shape.k) {
    Eigen::Index depth = k_, rows = n_, columns = kFewRows;
    Eigen::internal::computeProductBlockingSizes<float, float>(depth, rows, columns);
    depth_ = depth;
  }

  size_t packed_bytes() const override { return static_cast<size_t>(n_ * k_) * size_of(shape().activation); }
  void pack(const void* w, void* packed) const override {
    visit_activation(shape().activation, [&](auto tag) {
      using T = decltype(tag);
      transpose_rows(static_cast<const T*>(w), n_, k_, static_cast<T*>(packed));
    });
  }

  size_t scratch_bytes(int64_t rows, bool) const override {
    const int64_t floats = rows < kFewRows                     ? k_ + whole_vectors(n_)
                           : shape().activation == DType::BF16 ? (n_ + rows) * k_
                                                               : 0;
    return static_cast<size_t>(floats) * sizeof(float);
  }

  void run(int64_t rows, const void* x, const void* packed, float* y, bool accumulate, void* scratch) const override {
    auto* room = static_cast<float*>(scratch);
    visit_activation(shape().activation, [&](auto tag) {
      using T = decltype(tag);
      const T *row = static_cast<const T*>(x), *w = static_cast<const T*>(packed);
      if (!accumulate) std::fill_n(y, rows * n_, 0.0f);
      if (rows < kFewRows)
        for (int64_t r = 0; r < rows; ++r) add_row_alone(row + r * shape().x_stride, w, y + r * n_, room);
      else
        add_panel(rows, row, w, y, room);
    });
  }

 private:
  /// A row without a panel reads weights once, as they are stored. Its sums are those that Eigen's kernel makes: cut
  /// along k, three vectors of columns at a time, then two, then one. Where they are not, after all, a panel is used.
  template <class T>
  void add_row_alone(const T* x, const T* w, float* y, float* room) const {
    const bool lonely = n_ % (3 * kPacket) == kPacket;
    const int64_t columns = lonely ? n_ - kPacket : n_;
    float *wide = room, *sums = room + k_;
    widen(x, wide, k_);
    for (int64_t first = 0; first < k_; first += depth_) {
      std::fill_n(sums, whole_vectors(n_), 0.0f);
      const int64_t last = std::min(k_, first + depth_);
      for (int64_t k = first; k < last; k += kSteps)
        add_row(wide + k, std::min(kSteps, last - k), w + k * n_, n_, columns, sums);
      if (lonely)
        store(sums + columns, lonely_vector(wide + first, last - first, w + first * n_ + columns, n_), kPacket);
      for (int64_t i = 0; i < n_; ++i) y[i] += sums[i];
    }
  }

  void add_panel(int64_t rows, const float* x, const float* w, float* y, float*) const {
    add_product(rows, x, shape().x_stride, w, y);
  }

  void add_panel(int64_t rows, const bf16* x, const bf16* w, float* y, float* room) const {
    float* wide_x = room + n_ * k_;
    widen(w, room, n_ * k_);
    for (int64_t r = 0; r < rows; ++r) widen(x + r * shape().x_stride, wide_x + r * k_, k_);
    add_product(rows, wide_x, k_, room, y);
  }

  // yᵀ [n, rows] += W xᵀ with column-major operands: tokens are columns, which Eigen's kernel takes four at a time,
  // each column on its own; were they rows, a token's arithmetic would depend on its place in a register.
  void add_product(int64_t rows, const float* x, int64_t x_stride, const float* w, float* y) const {
    const Eigen::Map<const Eigen::MatrixXf> weight(w, n_, k_);
    const Eigen::Map<const Eigen::MatrixXf, 0, Eigen::OuterStride<>> columns(x, k_, rows,
                                                                             Eigen::OuterStride<>(x_stride));
    Eigen::Map<Eigen::MatrixXf>(y, n_, rows).noalias() += weight * columns;
  }

  int64_t n_, k_;
  int64_t depth_;  // of Eigen's cuts along k
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
#elif defined(__ARM_NEON)
    return "neon";
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
