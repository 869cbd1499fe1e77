#include "kernels/runtime/cublaslt.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "base/error.h"
#include "kernels/runtime/check.h"

namespace kvcal::cuda {
namespace {

void check_call(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) fail_cublaslt(status, what);
}

template <class T>
void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check_call(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof(value)), "describing a product");
}

template <class T>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
  check_call(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)),
             "describing what is asked of a product");
}

/// 0, every attribute's default, where an algorithm does not have it.
int32_t config(const Algorithm& algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute) {
  int32_t value = 0;
  size_t written = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoConfigGetAttribute(&algorithm.algo, attribute, &value, sizeof(value), &written);
  return status == CUBLAS_STATUS_SUCCESS ? value : 0;
}

cudaDataType type_of(DType dtype) { return dtype == DType::BF16 ? CUDA_R_16BF : CUDA_R_32F; }

/// By columns: `leading` is the row-major width.
CublasLtLayout layout(DType dtype, int64_t leading, int64_t count) {
  cublasLtMatrixLayout_t made = nullptr;
  check_call(cublasLtMatrixLayoutCreate(&made, type_of(dtype), static_cast<uint64_t>(leading),
                                        static_cast<uint64_t>(count), leading),
             "describing a matrix");
  return CublasLtLayout(made);
}

CublasLtOperation operation(const ProductShape& shape) {
  cublasLtMatmulDesc_t made = nullptr;
  // Plain f32 inside: COMPUTE_32F takes no TF32.
  check_call(cublasLtMatmulDescCreate(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describing a product");
  CublasLtOperation owned(made);
  set(made, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  if (shape.bias) set(made, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  return owned;
}

CublasLtPreference preference(const ProductShape& shape, size_t most_workspace, uint32_t reductions) {
  cublasLtMatmulPreference_t made = nullptr;
  check_call(cublasLtMatmulPreferenceCreate(&made), "describing what is asked of a product");
  CublasLtPreference owned(made);
  set(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{most_workspace});
  set(made, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
  const uint32_t in = alignment_of_rows(shape.in, shape.x), out = alignment_of_rows(shape.out, shape.y);
  set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, in);
  set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, in);
  set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, out);
  set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, out);
  return owned;
}

}  // namespace

void fail_cublaslt(cublasStatus_t status, const std::string& what) {
  fail(what + device_in_use() + ": cuBLASLt: " + cublasLtGetStatusString(status) + " (" +
       cublasLtGetStatusName(status) + ")");
}

CublasLtHandle make_cublaslt() {
  cublasLtHandle_t made = nullptr;
  check_call(cublasLtCreate(&made), "starting cuBLASLt");
  return CublasLtHandle(made);
}

uint32_t alignment_of_rows(int64_t width, DType dtype) {
  constexpr uint64_t kMost = 256;  // of device memory, and what the library asks for unless told otherwise
  const uint64_t bytes = static_cast<uint64_t>(width) * size_of(dtype);
  return static_cast<uint32_t>(std::min(bytes & (~bytes + 1), kMost));
}

std::string str(const ProductShape& s) {
  return std::string(name_of(s.x)) + " [" + std::to_string(s.in) + " -> " + std::to_string(s.out) + "]" +
         (s.bias ? " + bias" : "") + " -> " + std::string(name_of(s.y));
}

std::string str(const Algorithm& a) {
  return std::to_string(config(a, CUBLASLT_ALGO_CONFIG_ID)) + ", tile " +
         std::to_string(config(a, CUBLASLT_ALGO_CONFIG_TILE_ID)) + ", stages " +
         std::to_string(config(a, CUBLASLT_ALGO_CONFIG_STAGES_ID)) + ", swizzle " +
         std::to_string(config(a, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING)) + ", custom " +
         std::to_string(config(a, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION));
}

bool same(const Algorithm& a, const Algorithm& b) { return std::memcmp(&a.algo, &b.algo, sizeof a.algo) == 0; }

Product::Product(cublasLtHandle_t library, const ProductShape& shape)
    : library_(library), shape_(shape), operation_(operation(shape)), w_(layout(shape.x, shape.in, shape.out)) {}

void Product::set_bias(const void* bias) const {
  if (shape_.bias) set(operation_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
}

Product::Rows Product::rows(int64_t count) const {
  return {count, layout(shape_.x, shape_.in, count), layout(shape_.y, shape_.out, count)};
}

std::vector<Algorithm> Product::proposals(const Rows& rows, size_t most_workspace) const {
  std::vector<Algorithm> found = proposals(rows, most_workspace, CUBLASLT_REDUCTION_SCHEME_NONE);
  // Should the library take "none" for nothing at all, it is asked for everything, and what splits sums is left out.
  return found.empty() ? proposals(rows, most_workspace, CUBLASLT_REDUCTION_SCHEME_MASK) : found;
}

std::vector<Algorithm> Product::proposals(const Rows& rows, size_t most_workspace, uint32_t reductions) const {
  constexpr int kAsked = 16;  // a few of them split the sums or are the same kernel with another launch
  std::array<cublasLtMatmulHeuristicResult_t, kAsked> results{};
  int n = 0;
  const CublasLtPreference asked = preference(shape_, most_workspace, reductions);
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(library_, operation_.get(), w_.get(), rows.x.get(), rows.y.get(), rows.y.get(),
                                     asked.get(), kAsked, results.data(), &n);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
  if (status != CUBLAS_STATUS_SUCCESS)
    fail_cublaslt(status, "asking for algorithms for " + str(shape_) + " with " + std::to_string(rows.count) + " rows");
  std::vector<Algorithm> found;
  for (const cublasLtMatmulHeuristicResult_t& r : std::span(results).first(static_cast<size_t>(n))) {
    const Algorithm a{r.algo, r.workspaceSize};
    const bool whole_sums = config(a, CUBLASLT_ALGO_CONFIG_SPLITK_NUM) <= 1 &&
                            config(a, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME) == CUBLASLT_REDUCTION_SCHEME_NONE;
    if (r.state == CUBLAS_STATUS_SUCCESS && a.workspace <= most_workspace && whole_sums) found.push_back(a);
  }
  return found;
}

bool Product::fits(Algorithm& algorithm, const Rows& rows, size_t most_workspace) const {
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status = cublasLtMatmulAlgoCheck(library_, operation_.get(), w_.get(), rows.x.get(),
                                                        rows.y.get(), rows.y.get(), &algorithm.algo, &result);
  if (status != CUBLAS_STATUS_SUCCESS || result.workspaceSize > most_workspace) return false;
  algorithm.workspace = result.workspaceSize;
  return true;
}

void Product::run(const Algorithm& algorithm, const Rows& rows, const Operands& operands, const Workspace& workspace,
                  cudaStream_t stream) const {
  const float alpha = 1.0f, beta = 0.0f;
  const cublasStatus_t status = cublasLtMatmul(library_, operation_.get(), &alpha, operands.w, w_.get(), operands.x,
                                               rows.x.get(), &beta, operands.y, rows.y.get(), operands.y, rows.y.get(),
                                               &algorithm.algo, workspace.memory, workspace.bytes, stream);
  if (status != CUBLAS_STATUS_SUCCESS)
    fail_cublaslt(status, "multiplying " + std::to_string(rows.count) + " rows, " + str(shape_) + ", algorithm " +
                              str(algorithm));
}

}  // namespace kvcal::cuda
