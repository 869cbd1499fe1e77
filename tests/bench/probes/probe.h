// What the probes share. Data is random: products of zeros are faster than any of real numbers.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace probe {

inline void require(bool ok, const char* what, int code = 0) {
  if (ok) return;
  std::fprintf(stderr, "%s failed: %d\n", what, code);
  std::exit(2);
}
inline void check(cudaError_t e, const char* what = "CUDA") { require(e == cudaSuccess, what, e); }
inline void check(cublasStatus_t e, const char* what = "cuBLAS") { require(e == CUBLAS_STATUS_SUCCESS, what, e); }

/// Device memory of random bf16 numbers between -1 and 1; never freed: a probe ends soon.
inline uint16_t* random_rows(int64_t n) {
  std::vector<uint16_t> host(static_cast<size_t>(std::min<int64_t>(n, 1 << 24)));
  uint64_t state = static_cast<uint64_t>(n) * 0x9E3779B97F4A7C15u + 1;
  for (uint16_t& x : host) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    x = static_cast<uint16_t>((state >> 48 & 0x80FF) | 0x3F00);  // a sign, an octave or two, a significand
  }
  uint16_t* device = nullptr;
  check(cudaMalloc(reinterpret_cast<void**>(&device), static_cast<size_t>(n) * 2), "cudaMalloc");
  for (int64_t at = 0; at < n; at += static_cast<int64_t>(host.size()))
    check(cudaMemcpy(device + at, host.data(), std::min(host.size(), static_cast<size_t>(n - at)) * 2,
                     cudaMemcpyHostToDevice));
  return device;
}

/// A copy on the device; never freed.
template <class T>
const T* on_device(const std::vector<T>& host) {
  T* device = nullptr;
  check(cudaMalloc(reinterpret_cast<void**>(&device), host.size() * sizeof(T)), "cudaMalloc");
  check(cudaMemcpy(device, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
  return device;
}

/// Milliseconds of each of five rounds, by events.
inline std::vector<double> milliseconds(const std::function<void()>& work) {
  cudaEvent_t from, to;
  check(cudaEventCreate(&from));
  check(cudaEventCreate(&to));
  std::vector<double> all;
  for (int round = -2; round < 5; ++round) {  // two that do not count
    check(cudaEventRecord(from, nullptr));
    work();
    check(cudaEventRecord(to, nullptr));
    check(cudaEventSynchronize(to));
    float ms = 0;
    check(cudaEventElapsedTime(&ms, from, to));
    if (round >= 0) all.push_back(ms);
  }
  return all;
}

inline void print(const std::string& name, const char* unit, std::vector<double> values,
                  const std::string& facts = "") {
  std::string list;
  for (const double v : values) list += (list.empty() ? "" : ",") + std::to_string(v);
  std::sort(values.begin(), values.end());
  std::printf(R"({"id":"probe","name":"%s","unit":"%s","values":[%s],"median":%g,"least":%g,"most":%g%s})"
              "\n",
              name.c_str(), unit, list.c_str(), values[values.size() / 2], values.front(), values.back(),
              facts.c_str());
  std::fflush(stdout);
}

inline void print_not_run(const std::string& name, std::string why) {
  for (char& c : why)
    if (c == '"' || c == '\\' || c < ' ') c = ' ';
  std::printf(R"({"id":"probe","name":"%s","not_run":"%s"})"
              "\n",
              name.c_str(), why.c_str());
}

inline std::vector<double> tera(double flops, std::vector<double> ms) {
  for (double& x : ms) x = 1e-9 * flops / x;
  return ms;
}

/// y = x wᵀ (+ y): rows x [m, k], w [n, k], y [m, n] of bf16, the heuristic's first choice.
class Product {
 public:
  Product(int64_t m, int64_t n, int64_t k) {
    check(cublasLtCreate(&handle_));
    check(cublasLtMatmulDescCreate(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    const cublasOperation_t transposed = CUBLAS_OP_T;
    check(cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed));
    // Columns are what cuBLAS thinks in: w and x as [k, n] and [k, m].
    check(cublasLtMatrixLayoutCreate(&w_, CUDA_R_16BF, static_cast<uint64_t>(k), static_cast<uint64_t>(n), k));
    check(cublasLtMatrixLayoutCreate(&x_, CUDA_R_16BF, static_cast<uint64_t>(k), static_cast<uint64_t>(m), k));
    check(cublasLtMatrixLayoutCreate(&y_, CUDA_R_16BF, static_cast<uint64_t>(n), static_cast<uint64_t>(m), n));
    cublasLtMatmulPreference_t preference;
    check(cublasLtMatmulPreferenceCreate(&preference));
    check(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspace,
                                               sizeof kWorkspace));
    int found = 0;
    check(cublasLtMatmulAlgoGetHeuristic(handle_, operation_, w_, x_, y_, y_, preference, 1, &choice_, &found));
    require(found == 1, "finding an algorithm");
    check(cudaMalloc(&workspace_, kWorkspace));
  }

  void run(const void* x, const void* w, void* y, float beta = 0) const {
    const float alpha = 1;
    check(cublasLtMatmul(handle_, operation_, &alpha, w, w_, x, x_, &beta, y, y_, y, y_, &choice_.algo, workspace_,
                         kWorkspace, nullptr));
  }

 private:
  static constexpr size_t kWorkspace = size_t{64} << 20;
  cublasLtHandle_t handle_{};
  cublasLtMatmulDesc_t operation_{};
  cublasLtMatrixLayout_t w_{}, x_{}, y_{};
  cublasLtMatmulHeuristicResult_t choice_{};
  void* workspace_ = nullptr;
};

}  // namespace probe
