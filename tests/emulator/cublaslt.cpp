// Products on the host, with the checks that the library makes, and those that it leaves to the hardware.
#include "emulator/cublaslt.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "emulator/devices.h"
#include "emulator/memory.h"
#include "emulator/streams.h"
#include "include/cublasLt.h"
#include "tensor/dtype.h"

struct EmulatedCublasLt {};
struct EmulatedOperation {
  bool transposed_a = false, bias = false;
  const void* bias_pointer = nullptr;
};
struct EmulatedLayout {
  cudaDataType type;
  int64_t rows, columns;
};
struct EmulatedPreference {
  uint64_t most_workspace = 0;
  uint32_t reduction_mask = CUBLASLT_REDUCTION_SCHEME_MASK;
  uint32_t alignment[4] = {256, 256, 256, 256};
};

namespace {

using emulator::kFewRows;
using emulator::kProductAlgorithms;
using emulator::ProductAlgorithm;

constexpr uint32_t kLeastAlignment = 16;
std::map<int, int64_t> n_products;
int64_t n_product_rows = 0;
bool fail_next = false;
int variants = 1;
double slowness = 1.0;

template <class T>
bool take(T& to, const void* value, size_t bytes) {
  if (!value || bytes != sizeof(T)) return false;
  std::memcpy(&to, value, sizeof(T));
  return true;
}

cublasStatus_t answer(bool ok) { return ok ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE; }

/// D [m, n] = op(A) [m, k] B [k, n], by columns; the types that kernels/ uses are those the library documents.
cublasStatus_t check_shapes(cublasLtHandle_t library, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                            cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d) {
  if (!library) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!operation || !a || !b || !c || !d) return CUBLAS_STATUS_INVALID_VALUE;
  if (!operation->transposed_a || a->type != b->type || c->type != d->type) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (a->rows != b->rows || a->columns != d->rows || b->columns != d->columns || c->rows != d->rows ||
      c->columns != d->columns)
    return CUBLAS_STATUS_INVALID_VALUE;
  return a->type == CUDA_R_32F && d->type != CUDA_R_32F ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
}

int id_of(const cublasLtMatmulAlgo_t* algorithm) {
  const int id = algorithm ? static_cast<int>(algorithm->data[0]) : 0;
  return kProductAlgorithms.contains(id) && algorithm->data[1] == ~algorithm->data[0] ? id : 0;
}

bool is_aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % kLeastAlignment == 0; }

std::vector<float> widened(const void* from, cudaDataType type, size_t n) {
  std::vector<float> values(n);
  kvcal::convert_to_float(type == CUDA_R_16BF ? kvcal::DType::BF16 : kvcal::DType::F32, from, values.data(), n);
  return values;
}

float product_of_rows(const float* a, const float* b, int64_t k, ProductAlgorithm::Sums sums) {
  constexpr int64_t kLanes = 16;
  float lanes[kLanes] = {};
  const int64_t whole = k / kLanes * kLanes;
  for (int64_t i = 0; i < whole; i += kLanes)
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] += a[i + l] * b[i + l];
  float sum = 0.0f;
  for (int64_t l = 0; l < kLanes; ++l) sum += lanes[sums == ProductAlgorithm::Ascending ? l : kLanes - 1 - l];
  for (int64_t i = whole; i < k; ++i) sum += a[i] * b[i];
  return sum;
}

/// The change that another order of additions makes now and then, made certain; and, in parts, not twice the same.
float changed(float sum, ProductAlgorithm::Sums sums) {
  static std::minstd_rand random;
  if (sums == ProductAlgorithm::Descending) return sum + sum * 0x1p-7f;
  return sums == ProductAlgorithm::InParts && random() % 2 ? sum - sum * 0x1p-7f : sum;
}

struct Operands {
  const void *a, *b, *bias;
  void *d, *workspace;
};

void multiply(const Operands& operands, const EmulatedLayout& a, const EmulatedLayout& d, int id) {
  const ProductAlgorithm& how = kProductAlgorithms.at(id);
  const auto k = a.rows, m = d.rows, n = d.columns;
  const std::vector<float> left = widened(operands.a, a.type, static_cast<size_t>(k * m)),
                           right = widened(operands.b, a.type, static_cast<size_t>(k * n));
  std::vector<float> bias(static_cast<size_t>(m));
  if (operands.bias) bias = widened(operands.bias, d.type, bias.size());
  std::memset(operands.workspace, emulator::kPoison, how.workspace);
  for (int64_t j = 0; j < n; ++j)
    for (int64_t i = 0; i < m; ++i) {
      const float sum = product_of_rows(left.data() + i * k, right.data() + j * k, k, how.sums);
      const float y = changed(sum, how.sums) + bias[static_cast<size_t>(i)];
      if (d.type == CUDA_R_32F)
        static_cast<float*>(operands.d)[j * m + i] = y;
      else
        static_cast<kvcal::bf16*>(operands.d)[j * m + i] = kvcal::to_bf16(y);
    }
  ++n_products[id];
  n_product_rows += n;
  emulator::pass_time(slowness * how.milliseconds);
}

}  // namespace

namespace emulator {

const std::map<int, int64_t>& products() { return n_products; }
int64_t product_rows() { return n_product_rows; }
void set_library(int n, double times) {
  variants = n;
  slowness = times;
}
void fail_next_product() { fail_next = true; }

}  // namespace emulator

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "unknown";
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "success" : "the requested functionality failed";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* library) {
  *library = new EmulatedCublasLt;
  emulator::own(*library);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t library) {
  emulator::disown(library);
  delete library;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* operation, cublasComputeType_t compute,
                                        cudaDataType scale) {
  if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F) return CUBLAS_STATUS_INVALID_VALUE;
  *operation = new EmulatedOperation;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) {
  delete operation;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  uint32_t number = 0;
  if (attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER) return answer(take(operation->bias_pointer, value, bytes));
  if (!take(number, value, bytes)) return CUBLAS_STATUS_INVALID_VALUE;
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSA) operation->transposed_a = number == CUBLAS_OP_T;
  if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE) {
    operation->bias = number == CUBLASLT_EPILOGUE_BIAS;
    return answer(operation->bias || number == CUBLASLT_EPILOGUE_DEFAULT);
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t leading) {
  if (rows == 0 || columns == 0 || leading != static_cast<int64_t>(rows)) return CUBLAS_STATUS_INVALID_VALUE;
  *layout = new EmulatedLayout{type, static_cast<int64_t>(rows), static_cast<int64_t>(columns)};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new EmulatedPreference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return answer(take(preference->most_workspace, value, bytes));
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return answer(take(preference->reduction_mask, value, bytes));
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return answer(take(preference->alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, bytes));
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t library, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int asked,
                                              cublasLtMatmulHeuristicResult_t results[], int* n_results) {
  *n_results = 0;
  if (const cublasStatus_t status = check_shapes(library, operation, a, b, c, d)) return status;
  if (operation->bias && !is_aligned(operation->bias_pointer)) return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto* least = std::min_element(preference->alignment, preference->alignment + 4);
  if (*least < kLeastAlignment) return CUBLAS_STATUS_NOT_SUPPORTED;
  const std::vector<int> order = d->columns <= kFewRows ? std::vector{5, 4, 3, 2, 1} : std::vector{1, 4, 3, 2};
  for (int variant = 0; variant < variants; ++variant)
    for (const int id : order) {
      const ProductAlgorithm& algorithm = kProductAlgorithms.at(id);
      if (*n_results == asked || algorithm.workspace > preference->most_workspace) continue;
      cublasLtMatmulHeuristicResult_t& r = results[(*n_results)++];
      r = {{{static_cast<uint64_t>(id), ~static_cast<uint64_t>(id), static_cast<uint64_t>(variant)}},
           algorithm.workspace,
           CUBLAS_STATUS_SUCCESS,
           1.0f,
           {}};
    }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t library, cublasLtMatmulDesc_t operation,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                       cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  if (const cublasStatus_t status = check_shapes(library, operation, a, b, c, d)) return status;
  const int id = id_of(algorithm);
  if (id == 0) return CUBLAS_STATUS_INVALID_VALUE;
  if (d->columns > kProductAlgorithms.at(id).most_rows) return CUBLAS_STATUS_NOT_SUPPORTED;
  *result = {*algorithm, kProductAlgorithms.at(id).workspace, CUBLAS_STATUS_SUCCESS, 1.0f, {}};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute, void* value,
                                                    size_t bytes, size_t* written) {
  const int id = id_of(algorithm);
  if (id == 0 || !value || bytes != sizeof(int32_t) || !written) return CUBLAS_STATUS_INVALID_VALUE;
  const bool parts = kProductAlgorithms.at(id).sums == ProductAlgorithm::InParts;
  int32_t number = 0;
  if (attribute == CUBLASLT_ALGO_CONFIG_ID) number = id;
  if (attribute == CUBLASLT_ALGO_CONFIG_SPLITK_NUM) number = parts ? 4 : 1;
  if (attribute == CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME)
    number = parts ? CUBLASLT_REDUCTION_SCHEME_INPLACE : CUBLASLT_REDUCTION_SCHEME_NONE;
  std::memcpy(value, &number, sizeof(number));
  *written = sizeof(number);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t library, cublasLtMatmulDesc_t operation, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t workspace_bytes,
                              cudaStream_t stream) {
  cublasLtMatmulHeuristicResult_t checked;
  if (const cublasStatus_t status =
          cublasLtMatmulAlgoCheck(library, operation, a_layout, b_layout, c_layout, d_layout, algorithm, &checked))
    return status;
  if (std::exchange(fail_next, false)) return CUBLAS_STATUS_EXECUTION_FAILED;
  const int device = emulator::owner_of(stream);
  for (const void* memory : {a, b, static_cast<const void*>(d), static_cast<const void*>(workspace)})
    if (emulator::owner_of(library) != device || (memory && emulator::device_of(memory) != device))
      return CUBLAS_STATUS_EXECUTION_FAILED;
  const bool pointers = is_aligned(a) && is_aligned(b) && is_aligned(d) && a && b && d && c == d && stream &&
                        (!operation->bias || (operation->bias_pointer && is_aligned(operation->bias_pointer)));
  const bool factors = *static_cast<const float*>(alpha) == 1.0f && *static_cast<const float*>(beta) == 0.0f;
  if (!pointers || !factors || workspace_bytes < checked.workspaceSize ||
      reinterpret_cast<uintptr_t>(workspace) % 256 != 0 || (!workspace && workspace_bytes > 0))
    return CUBLAS_STATUS_INVALID_VALUE;

  const Operands operands{a, b, operation->bias ? operation->bias_pointer : nullptr, d, workspace};
  emulator::enqueue(stream, [=, x = *a_layout, y = *d_layout, id = id_of(algorithm)] { multiply(operands, x, y, id); });
  return CUBLAS_STATUS_SUCCESS;
}
