// A product of 8192 over and over for 30 s: its rate second by second.
#include <chrono>

#include "bench/probes/probe.h"

int main() {
  constexpr int64_t kSize = 8192;
  const uint16_t *x = probe::random_rows(kSize * kSize), *w = probe::random_rows(kSize * kSize);
  uint16_t* y = probe::random_rows(kSize * kSize);
  const probe::Product product(kSize, kSize, kSize);
  const double flops = 2.0 * kSize * kSize * kSize;
  std::vector<double> rates;
  product.run(x, w, y);
  probe::check(cudaDeviceSynchronize());
  using Clock = std::chrono::steady_clock;
  for (const auto start = Clock::now(); Clock::now() - start < std::chrono::seconds(30);) {
    const auto second = Clock::now();
    int n = 0;
    for (; Clock::now() - second < std::chrono::seconds(1); n += 20) {
      for (int i = 0; i < 20; ++i) product.run(x, w, y);
      probe::check(cudaDeviceSynchronize());
    }
    rates.push_back(1e-12 * flops * n / std::chrono::duration<double>(Clock::now() - second).count());
  }
  const std::string facts = ",\"first\":" + std::to_string(rates.front()) + ",\"last\":" + std::to_string(rates.back());
  probe::print("gemm, sustained for 30 s", "TFLOP/s", rates, facts);
  return 0;
}
