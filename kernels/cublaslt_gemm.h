// Matrix products by cuBLASLt.
//
// Which of its algorithms computes a product is chosen once for a shape and a power of two of rows, at the first call:
// the fastest, timed on the first rows of that call's operands, of a few whose result equals the reference's bit for
// bit. The reference of a shape is what the library proposes first for kStandardRows rows, whatever the call has: so a
// row's bits do not depend on how many rows are with it, as far as the library lets us, and timing decides nothing but
// time.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/gemm.h"
#include "kernels/runtime/cublaslt.h"
#include "kernels/runtime/handle.h"

namespace kvcal::cuda {

class CublasLtGemm final : public Gemm {
 public:
  /// Of the device in use. wide_bytes: for rows in f32, where a bias is no bf16 number; a few thousand rows keep a
  /// device busy. Throws Error when the library cannot start or there is no room for the workspace.
  explicit CublasLtGemm(size_t wide_bytes = size_t{64} << 20);

  void multiply(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y, cudaStream_t stream) override;
  std::vector<std::string> notes() const override;

 private:
  struct Call {  // with so many rows
    Product::Rows rows;
    std::optional<Algorithm> algorithm;  // none: the library refuses
  };
  struct Shape {
    Product product;
    std::optional<Algorithm> reference;
    std::map<int64_t, std::optional<Algorithm>> chosen;  // by rows, rounded up to a power of two
    std::map<int64_t, Call> calls;                       // by rows
  };

  Shape& shape_of(const ProductShape& shape, const void* bias);
  const Call& call_of(Shape& shape, int64_t rows, const Operands& operands, cudaStream_t stream);
  std::vector<Algorithm> candidates_for(const Shape& shape, const Product::Rows& rows) const;
  std::optional<Algorithm> choose(const Shape& shape, int64_t n, const Operands& operands, cudaStream_t stream);
  unsigned long long checksum(const Tensor& y, cudaStream_t stream);
  float milliseconds(const Product& product, const Algorithm& algorithm, const Product::Rows& rows,
                     const Operands& operands, cudaStream_t stream);
  void multiply_wide(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y, cudaStream_t stream);

  CublasLtHandle library_;
  DeviceBytes memory_, checksum_;
  Workspace workspace_;
  Event before_, after_;
  size_t wide_bytes_;
  DeviceBytes wide_;  // f32 rows on their way to bf16; made when first needed
  std::map<ProductShape, Shape> shapes_;
  std::vector<std::string> notes_;
};

}  // namespace kvcal::cuda
