// How near to the memory's rate a token is decoded, in turns with threads that only read as many bytes:
//
//   decode_bench MODEL [THREADS TOKENS ROUNDS]
//
// A token reads all weights, in the form that products keep: bytes of a second of decoding, and of reading.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>

#include "base/thread_pool.h"
#include "calibrate/opened_model.h"
#include "ops/cpu/cpu_ops.h"
#include "prefill/footprint.h"
#include "prefill/generate.h"

namespace kvcal {
namespace {

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Of layers and head; one row of the embedding is nothing.
double weight_bytes(const ModelSpec& spec) {
  int64_t parameters = spec.vocab * spec.hidden;
  for (const LayerSpec& layer : spec.layers) parameters += layer.parameters;
  return static_cast<double>(parameters) * static_cast<double>(element_bytes(Precision::BF16));
}

/// Each thread reads its part of the memory from one end to the other.
uint64_t read_all(const std::vector<uint64_t>& memory, ThreadPool& pool) {
  std::vector<uint64_t> sums(static_cast<size_t>(pool.n_threads()));
  const size_t part = memory.size() / sums.size();
  pool.parallel_for(pool.n_threads(), [&](int64_t task, int) {
    const auto begin = memory.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(task) * part);
    sums[static_cast<size_t>(task)] = std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(part), uint64_t{0});
  });
  return std::accumulate(sums.begin(), sums.end(), uint64_t{0});
}

void print(const char* what, std::vector<double> rates) {
  std::sort(rates.begin(), rates.end());
  std::printf("%-10s %6.2f GB/s (%.2f to %.2f)\n", what, rates[rates.size() / 2], rates.front(), rates.back());
}

int run(int argc, char** argv) {
  if (argc != 2 && argc != 5) fail("usage: decode_bench MODEL [THREADS TOKENS ROUNDS]");
  const int threads = argc == 5 ? std::atoi(argv[2]) : available_processors();
  const int64_t tokens = argc == 5 ? std::atoll(argv[3]) : 16;
  const int rounds = argc == 5 ? std::atoi(argv[4]) : 5;
  OpenedModel model(argv[1]);
  const auto op = make_cpu_ops({.threads = threads});
  Generator generator(*model.model, *op, model.weights, 2048);
  const double bytes = weight_bytes(model.spec());
  const std::vector<uint64_t> memory(static_cast<size_t>(bytes) / sizeof(uint64_t), 1);
  ThreadPool pool(threads);
  NoTap away;
  GenerateOptions options;
  options.max_new_tokens = tokens + 1;
  std::vector<double> decoded, read;
  uint64_t sum = 0;
  for (int round = 0; round < rounds; ++round) {
    const Generated answer = generator.generate({"", {1, 2, 3, 4}}, options, away);
    decoded.push_back(1e-9 * bytes * static_cast<double>(tokens) / answer.decode_seconds);
    read.push_back(1e-9 * bytes / seconds_of([&] { sum += read_all(memory, pool); }));
  }
  std::printf("%s, %d thread(s), %.3f GB of weights a token, %.2f tokens a second\n", op->isa().c_str(), threads,
              1e-9 * bytes, 1e9 * *std::max_element(decoded.begin(), decoded.end()) / bytes);
  print("decoding", decoded);
  print("reading", read);
  return sum > 0 ? 0 : 1;
}

}  // namespace
}  // namespace kvcal

int main(int argc, char** argv) {
  try {
    return kvcal::run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "decode_bench: %s\n", e.what());
    return 2;
  }
}
