// cuDNN's attention over packed rows: milliseconds to build a plan, and its rate, for sequences of 2048 and 16384.
#include <chrono>
#include <cmath>

#include "bench/probes/attention.h"

namespace {

using kvcal::cuda::AttentionPlan;
using probe::on_device;

void run(kvcal::cuda::AttentionLibrary& library, const AttentionPlan& p) {
  const int64_t rows = p.n_sequences * p.most_queries;
  const uint16_t *q = probe::random_rows(rows * p.n_heads * p.key_dim),
                 *k = probe::random_rows(rows * p.n_kv_heads * p.key_dim),
                 *v = probe::random_rows(rows * p.n_kv_heads * p.value_dim);
  uint16_t* y = probe::random_rows(rows * p.n_heads * p.value_dim);
  const auto offsets = [&](int64_t width) {
    std::vector<int64_t> all;
    for (int64_t i = 0; i <= p.n_sequences; ++i) all.push_back(i * p.most_queries * width);
    return on_device(all);
  };
  const int32_t* counts =
      on_device(std::vector<int32_t>(static_cast<size_t>(p.n_sequences), static_cast<int32_t>(p.most_queries)));
  const kvcal::cuda::AttentionCall call{q,
                                        k,
                                        v,
                                        y,
                                        counts,
                                        counts,
                                        offsets(p.n_heads * p.key_dim),
                                        offsets(p.n_kv_heads * p.key_dim),
                                        offsets(p.n_kv_heads * p.value_dim),
                                        offsets(p.n_heads * p.value_dim)};
  const std::string name = "cuDNN attention, " + str(p);
  const auto start = std::chrono::steady_clock::now();
  if (!library.attend(p, call, nullptr)) return probe::print_not_run(name, library.notes().back());
  probe::check(cudaDeviceSynchronize());
  const double first = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  const double length = static_cast<double>(p.most_queries);
  const double flops =
      static_cast<double>(p.n_sequences * p.n_heads * (p.key_dim + p.value_dim)) * length * (length + 1);
  const auto ms = probe::milliseconds([&] { library.attend(p, call, nullptr); });
  probe::print(name, "TFLOP/s", probe::tera(flops, ms), ",\"first_call_ms\":" + std::to_string(first));
  for (const void* m : {static_cast<const void*>(q), static_cast<const void*>(k), static_cast<const void*>(v),
                        static_cast<const void*>(y)})
    probe::check(cudaFree(const_cast<void*>(m)));
}

}  // namespace

int main() {
  const auto library = probe::open_attention("cuDNN attention");
  if (!library) return 0;
  struct Heads {
    int64_t n, n_kv, key_dim, value_dim;
  };
  for (const Heads& h : {Heads{32, 8, 64, 64}, {32, 8, 128, 128}, {16, 2, 256, 256}, {32, 32, 192, 128}})
    for (const int64_t length : {2048, 16384}) {
      const int64_t n = 65536 / length;
      const auto scale = 1.0f / std::sqrt(static_cast<float>(h.key_dim));
      run(*library, {n, length, length, h.n, h.n_kv, h.key_dim, h.value_dim, 0, scale, false});
    }
  return 0;
}
