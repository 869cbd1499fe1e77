// cuBLAS's grouped products of 256 experts, against one cuBLASLt call for each.
#include <cublas_v2.h>

#include "bench/probes/probe.h"

namespace {

void compare(const char* name, int64_t rows, int64_t n, int64_t k) {
  constexpr int kExperts = 256;
  const uint16_t *x = probe::random_rows(kExperts * rows * k), *w = probe::random_rows(kExperts * n * k);
  uint16_t* y = probe::random_rows(kExperts * rows * n);
  const double flops = 2.0 * kExperts * static_cast<double>(rows * n) * static_cast<double>(k);

  const probe::Product product(rows, n, k);
  const auto loop = probe::milliseconds([&] {
    for (int e = 0; e < kExperts; ++e) product.run(x + e * rows * k, w + e * n * k, y + e * rows * n);
  });
  probe::print(std::string(name) + ", a loop of cuBLASLt", "TFLOP/s", probe::tera(flops, loop));

  // Addresses are an array on the device; extents on the host. One group of one product for each expert.
  std::vector<const void*> from_w, from_x;
  std::vector<void*> to;
  for (int e = 0; e < kExperts; ++e) {
    from_w.push_back(w + e * n * k);
    from_x.push_back(x + e * rows * k);
    to.push_back(y + e * rows * n);
  }
  void** pointers = nullptr;
  constexpr size_t kBytes = kExperts * sizeof(void*);
  probe::check(cudaMalloc(reinterpret_cast<void**>(&pointers), 3 * kBytes));
  probe::check(cudaMemcpy(pointers, from_w.data(), kBytes, cudaMemcpyHostToDevice));
  probe::check(cudaMemcpy(pointers + kExperts, from_x.data(), kBytes, cudaMemcpyHostToDevice));
  probe::check(cudaMemcpy(pointers + 2 * kExperts, to.data(), kBytes, cudaMemcpyHostToDevice));
  const std::vector<cublasOperation_t> transposed(kExperts, CUBLAS_OP_T), plain(kExperts, CUBLAS_OP_N);
  const std::vector<int> ms(kExperts, static_cast<int>(n)), ns(kExperts, static_cast<int>(rows)),
      ks(kExperts, static_cast<int>(k)), ones(kExperts, 1);
  const std::vector<float> alpha(kExperts, 1.0f), beta(kExperts, 0.0f);
  cublasHandle_t handle;
  probe::check(cublasCreate(&handle));
  const auto grouped = probe::milliseconds([&] {
    probe::check(cublasGemmGroupedBatchedEx(handle, transposed.data(), plain.data(), ms.data(), ns.data(), ks.data(),
                                            alpha.data(), pointers, CUDA_R_16BF, ks.data(), pointers + kExperts,
                                            CUDA_R_16BF, ks.data(), beta.data(), pointers + 2 * kExperts, CUDA_R_16BF,
                                            ms.data(), kExperts, ones.data(), CUBLAS_COMPUTE_32F));
  });
  probe::print(std::string(name) + ", grouped", "TFLOP/s", probe::tera(flops, grouped));
  for (const void* p : {static_cast<const void*>(x), static_cast<const void*>(w), static_cast<const void*>(y)})
    probe::check(cudaFree(const_cast<void*>(p)));
}

}  // namespace

int main() {
  compare("256 experts, 4096 rows, 1024 x 2048", 4096, 1024, 2048);
  compare("256 experts, 4096 rows, 2048 x 512", 4096, 2048, 512);
  compare("256 experts, 64 rows, 1024 x 2048", 64, 1024, 2048);
  return 0;
}
