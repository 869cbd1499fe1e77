// The fixed-shape product that `linear` is made of. oneDNN's and Eigen's result for a row may depend on the shape of
// the whole call (blocking, choice of kernel); so a call always has one of a few row counts, filled up with zero rows.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "ops/ops.h"

namespace kvcal::cpu {

/// Row counts of a panel: from dense products over those of few rows (experts, ends of batches) down to a token that is
/// decoded.
constexpr std::array<int64_t, 7> kPanelRows = {256, 128, 64, 32, 8, 2, 1};
constexpr int64_t kRows = kPanelRows.front(), kFewRows = 32;

/// Of a row count in kPanelRows.
constexpr size_t panel_rows_index(int64_t rows) {
  return static_cast<size_t>(std::find(kPanelRows.begin(), kPanelRows.end(), rows) - kPanelRows.begin());
}

/// x [rows, k], its rows x_stride elements apart, and W [n, k], both of the activation dtype.
struct PanelShape {
  int64_t n, k, x_stride;
  DType activation;
  auto operator<=>(const PanelShape&) const = default;
};

/// y[rows, n] = x[rows, k] Wᵀ for one panel of W. Any number of threads may use it at once.
class PanelProduct {
 public:
  explicit PanelProduct(const PanelShape& shape) : shape_(shape) {}
  virtual ~PanelProduct() = default;
  PanelProduct(const PanelProduct&) = delete;
  PanelProduct& operator=(const PanelProduct&) = delete;

  const PanelShape& shape() const { return shape_; }

  virtual size_t packed_bytes() const = 0;
  /// w [n, k], contiguous -> packed.
  virtual void pack(const void* w, void* packed) const = 0;

  virtual size_t scratch_bytes(int64_t rows, bool accumulate) const = 0;
  /// x: `rows` rows, one of kPanelRows. y F32 [rows, n] is overwritten, or added to if accumulate. Runs on the calling
  /// thread alone.
  virtual void run(int64_t rows, const void* x, const void* packed, float* y, bool accumulate, void* scratch) const = 0;

  /// Whether panels of `rows` and of kFewRows give the same bytes for a row: tried once, on made-up data, because no
  /// library promises it.
  bool agrees_with_few(int64_t rows) const;

 private:
  bool try_few(int64_t rows) const;

  PanelShape shape_;
  mutable std::array<std::once_flag, kPanelRows.size()> tried_;
  mutable std::array<bool, kPanelRows.size()> agrees_{};
};

/// Makes panel products and keeps them, one for each shape.
class PanelProducts {
 public:
  virtual ~PanelProducts() = default;
  virtual std::string isa() const = 0;
  std::shared_ptr<const PanelProduct> get(const PanelShape& shape);

 private:
  virtual std::shared_ptr<const PanelProduct> make(const PanelShape& shape) = 0;

  std::mutex mutex_;
  std::map<PanelShape, std::shared_ptr<const PanelProduct>> products_;
};

/// Products through Eigen: f32, and bf16 widened to f32.
std::unique_ptr<PanelProducts> make_eigen_products();

/// bf16 products through oneDNN; null when this processor has no bf16 instructions that oneDNN uses.
std::unique_ptr<PanelProducts> make_onednn_products();

}  // namespace kvcal::cpu
