// cuBLASLt's objects, owned, and its calls, checked: one kind of product, with any number of rows.
#pragma once

#include <cublasLt.h>

#include <array>
#include <compare>
#include <memory>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace kvcal::cuda {

/// Throws Error "WHAT on device 0 (NVIDIA H200): cuBLASLt: ... (CUBLAS_STATUS_...)".
[[noreturn]] void fail_cublaslt(cublasStatus_t status, const std::string& what);

/// Owns one object of cuBLASLt; destruction never throws.
template <class H, cublasStatus_t (*Destroy)(H)>
struct CublasLtDestroy {
  using pointer = H;
  void operator()(H h) const { static_cast<void>(Destroy(h)); }
};
template <class H, cublasStatus_t (*Destroy)(H)>
using CublasLtOwned = std::unique_ptr<std::remove_pointer_t<H>, CublasLtDestroy<H, Destroy>>;

using CublasLtHandle = CublasLtOwned<cublasLtHandle_t, cublasLtDestroy>;
using CublasLtLayout = CublasLtOwned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using CublasLtOperation = CublasLtOwned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using CublasLtPreference = CublasLtOwned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

CublasLtHandle make_cublaslt();

/// What a product is but for its rows: y [rows, out] = x [rows, in] wᵀ + bias. The bias has the type of y: the library
/// knows no other for these types.
struct ProductShape {
  int64_t in = 0, out = 0;
  DType x = DType::BF16, y = DType::BF16;  // x and w; y
  bool bias = false;
  auto operator<=>(const ProductShape&) const = default;
};

/// "BF16 [4096 -> 6144] + bias -> BF16"
std::string str(const ProductShape& shape);

struct Algorithm {
  cublasLtMatmulAlgo_t algo{};
  size_t workspace = 0;  // bytes it needs
};

/// Its number in the library and how it cuts the product: "66, tile 21, stages 24, ...".
std::string str(const Algorithm& algorithm);

/// Whether they are the same to the library.
bool same(const Algorithm& a, const Algorithm& b);

/// Row-major operands; the library sees their transposes, by columns: yᵀ [out, rows] = w xᵀ.
struct Operands {
  const void *x, *w;
  void* y;
};

struct Workspace {
  void* memory;
  size_t bytes;
};

/// The library's description of one shape.
class Product {
 public:
  Product(cublasLtHandle_t library, const ProductShape& shape);
  const ProductShape& shape() const { return shape_; }

  /// Of the proposals and runs to come; 16-byte aligned. Null where the shape has none.
  void set_bias(const void* bias) const;

  /// The layouts that depend on the number of rows.
  struct Rows {
    int64_t count;
    CublasLtLayout x, y;
  };
  Rows rows(int64_t count) const;

  /// What the library proposes, best first, of what gives equal bytes each time: nothing that cuts the sums into parts.
  std::vector<Algorithm> proposals(const Rows& rows, size_t most_workspace) const;

  /// Whether the algorithm can do so many rows.
  bool fits(Algorithm& algorithm, const Rows& rows, size_t most_workspace) const;

  void run(const Algorithm& algorithm, const Rows& rows, const Operands& operands, const Workspace& workspace,
           cudaStream_t stream) const;

 private:
  std::vector<Algorithm> proposals(const Rows& rows, size_t most_workspace, uint32_t reductions) const;

  cublasLtHandle_t library_;
  ProductShape shape_;
  CublasLtOperation operation_;
  CublasLtLayout w_;
};

/// Largest power of two, up to 256, that divides the bytes of a row: where rows of a tensor may begin.
uint32_t alignment_of_rows(int64_t width, DType dtype);

}  // namespace kvcal::cuda
