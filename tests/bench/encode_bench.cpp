// MB/s of encoding: encode_bench TOKENIZER.json TEXT [repeats]. Prints seconds of every repeat and the number of ids;
// encode_bench.py compares them with the reference library's. `encode_bench --runs` times long runs of one letter.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/read_file.h"
#include "tokenizer/tokenizer.h"

namespace {

using namespace kvcal;

double seconds_of(const Tokenizer& tokenizer, const std::string& text, size_t& n_ids) {
  const auto start = std::chrono::steady_clock::now();
  n_ids = tokenizer.encode(text, false).ids.size();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 3) return std::fprintf(stderr, "usage: encode_bench TOKENIZER.json TEXT|--runs [repeats]\n"), 2;
  const Tokenizer tokenizer(read_json_file(argv[1]));
  size_t n_ids = 0;
  if (std::string(argv[2]) == "--runs") {
    for (const size_t n : {10'000u, 100'000u, 1'000'000u}) {
      const double seconds = seconds_of(tokenizer, std::string(n, 'a'), n_ids);
      std::printf("%zu %f %zu\n", n, seconds, n_ids);
    }
    return 0;
  }
  const std::string text = read_file(argv[2], size_t{1} << 30);
  const int repeats = argc > 3 ? std::atoi(argv[3]) : 1;
  for (int i = 0; i < repeats; ++i) {
    const double seconds = seconds_of(tokenizer, text, n_ids);
    std::printf("%f %zu\n", seconds, n_ids);
  }
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 2;
}
