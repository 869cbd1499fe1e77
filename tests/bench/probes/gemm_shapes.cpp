// cuBLASLt at the extents of real layers; does adding to y cost anything?
#include "bench/probes/probe.h"

int main() {
  struct Shape {
    const char* name;
    int64_t m, n, k;
  };
  constexpr Shape kShapes[] = {{"square", 8192, 8192, 8192},
                               {"8B qkv", 65536, 6144, 4096},
                               {"8B gate and up", 65536, 24576, 4096},
                               {"8B down", 65536, 4096, 12288},
                               {"70B gate and up", 16384, 57344, 8192},
                               {"70B down", 16384, 8192, 28672},
                               {"35B-A3B expert, gate and up", 4096, 1024, 2048},
                               {"35B-A3B expert, down", 4096, 2048, 512}};
  for (const Shape& s : kShapes) {
    const uint16_t *x = probe::random_rows(s.m * s.k), *w = probe::random_rows(s.n * s.k);
    uint16_t* y = probe::random_rows(s.m * s.n);
    const probe::Product product(s.m, s.n, s.k);
    const int repeats = s.m * s.n * s.k < int64_t{1} << 36 ? 20 : 1;  // small ones: more than the time of a launch
    const double flops = 2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k) * repeats;
    for (const float beta : {0.0f, 1.0f}) {
      const auto ms = probe::milliseconds([&] {
        for (int i = 0; i < repeats; ++i) product.run(x, w, y, beta);
      });
      probe::print(std::string("gemm, ") + s.name + (beta == 0 ? "" : ", beta 1"), "TFLOP/s", probe::tera(flops, ms));
    }
    for (const void* p : {static_cast<const void*>(x), static_cast<const void*>(w), static_cast<const void*>(y)})
      probe::check(cudaFree(const_cast<void*>(p)));
  }
  return 0;
}
