#include "bench/gpu/bench.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>

#include "kernels/runtime/check.h"

namespace kvcal::bench {

void wait_for_device() { cuda::check(cudaDeviceSynchronize(), "waiting for a benchmark"); }

double median(Values v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  wait_for_device();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Values rounds_of(const Options& o, const std::function<void()>& work) {
  seconds_of(work);
  Values v;
  for (int i = 0; i < o.rounds; ++i) v.push_back(seconds_of(work));
  return v;
}

Values rates(double amount, const Values& seconds) {
  Values v;
  for (const double s : seconds) v.push_back(amount / s);
  return v;
}

Owned on_device(Ops& op, const Tensor& host) {
  const Owned kept = op.allocate(host.shape, host.dtype);
  wait_for_device();  // it is cleared on another stream
  cuda::check(cudaMemcpyAsync(kept.view.data, host.data, host.bytes(), cudaMemcpyHostToDevice, nullptr),
              "filling a tensor");
  wait_for_device();
  return kept;
}

Owned random_tensor(Ops& op, const Shape& shape, uint32_t seed, float sigma) {
  const Storage host(shape, DType::BF16);
  std::minstd_rand random(seed + 1);
  bf16* x = host.tensor().as<bf16>();
  const auto n = static_cast<size_t>(shape.elements());
  constexpr size_t kBlock = 1 << 22;  // numbers that are made; a large tensor repeats them, with other signs
  for (size_t i = 0; i < n; ++i) {
    if (i >= kBlock) {
      x[i] = bf16{static_cast<uint16_t>(x[i - kBlock].bits ^ ((i / kBlock * 2654435761u >> (i % 16)) & 1u) << 15)};
      continue;
    }
    float sum = -2.0f;  // of four uniform numbers: near enough to a normal distribution
    for (int k = 0; k < 4; ++k) sum += static_cast<float>(random() & 0xFFFFFF) * 0x1p-24f;
    x[i] = to_bf16(sum * 1.7320508f * sigma + 1e-6f);
  }
  return on_device(op, host.tensor());
}

namespace {

void print_line(const Json& line) {
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

}  // namespace

void print(const std::string& id, const std::string& name, const std::string& unit, const Values& values, Json facts) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  facts["id"] = id;
  facts["name"] = name;
  facts["unit"] = unit;
  facts["values"] = values;
  facts["median"] = median(values);
  facts["least"] = *least;
  facts["most"] = *most;
  print_line(facts);
  std::fprintf(stderr, "%-4s %-52s %12.4g (%.4g..%.4g) %s\n", id.c_str(), name.c_str(), median(values), *least, *most,
               unit.c_str());
}

void print_not_run(const std::string& id, const std::string& name, const std::string& why) {
  print_line({{"id", id}, {"name", name}, {"not_run", why}});
  std::fprintf(stderr, "%-4s %-52s not run: %s\n", id.c_str(), name.c_str(), why.c_str());
}

}  // namespace kvcal::bench
