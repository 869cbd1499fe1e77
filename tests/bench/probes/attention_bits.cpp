// Whether a row of cuDNN's attention has the same bits however its sequence is cut and whatever comes with it: what
// scale files with equal bytes need. Each line counts rows that differ from those of one call with nothing else.
#include <bit>
#include <cmath>
#include <cstring>

#include "bench/probes/attention.h"

namespace {

using kvcal::cuda::AttentionPlan;
using probe::on_device;

struct Heads {
  int64_t n, n_kv, key_dim, value_dim, window;
};

int64_t bucket(int64_t n, int64_t least) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max(n, least))));
}

/// Rows of several sequences, one behind the other.
class Attention {
 public:
  Attention(kvcal::cuda::AttentionLibrary& library, const Heads& h, int64_t rows)
      : library_(library),
        h_(h),
        rows_(rows),
        q_(probe::random_rows(rows * h.n * h.key_dim)),
        k_(probe::random_rows(rows * h.n_kv * h.key_dim + 8)),
        v_(probe::random_rows(rows * h.n_kv * h.value_dim + 16)),
        y_(probe::random_rows(rows * h.n * h.value_dim)) {}

  struct Part {
    int64_t begin, first, end;  // of the sequence's rows; positions [first, end) ask
  };

  /// One call; false: the library refuses.
  bool call(const std::vector<Part>& parts, int64_t least_bucket = 64) {
    std::vector<int32_t> queries, keys;
    std::vector<int64_t> offsets[4];
    const int64_t widths[] = {h_.n * h_.key_dim, h_.n_kv * h_.key_dim, h_.n_kv * h_.value_dim, h_.n * h_.value_dim};
    int64_t most_queries = 0, most_keys = 0;
    for (const Part& p : parts) {
      queries.push_back(static_cast<int32_t>(p.end - p.first));
      keys.push_back(static_cast<int32_t>(p.end));
      most_queries = std::max(most_queries, p.end - p.first);
      most_keys = std::max(most_keys, p.end);
      for (int i : {0, 3}) offsets[i].push_back((p.begin + p.first) * widths[i]);
      for (int i : {1, 2}) offsets[i].push_back(p.begin * widths[i]);
    }
    const Part& last = parts.back();
    for (int i = 0; i < 4; ++i) offsets[i].push_back((last.begin + last.end) * widths[i]);
    const AttentionPlan plan{static_cast<int64_t>(parts.size()),
                             bucket(most_queries, least_bucket),
                             bucket(most_keys, least_bucket),
                             h_.n,
                             h_.n_kv,
                             h_.key_dim,
                             h_.value_dim,
                             h_.window,
                             1.0f / std::sqrt(static_cast<float>(h_.key_dim)),
                             parts[0].first > 0};
    return library_.attend(plan,
                           {q_, k_, v_, y_, on_device(queries), on_device(keys), on_device(offsets[0]),
                            on_device(offsets[1]), on_device(offsets[2]), on_device(offsets[3])},
                           nullptr);
  }

  std::vector<uint16_t> results(int64_t begin, int64_t n) const {
    const int64_t width = h_.n * h_.value_dim;
    std::vector<uint16_t> all(static_cast<size_t>(n * width));
    probe::check(cudaDeviceSynchronize());
    probe::check(cudaMemcpy(all.data(), y_ + begin * width, all.size() * 2, cudaMemcpyDeviceToHost));
    return all;
  }

  void forget() { probe::check(cudaMemset(y_, 0xFF, static_cast<size_t>(rows_ * h_.n * h_.value_dim) * 2)); }

 private:
  kvcal::cuda::AttentionLibrary& library_;
  Heads h_;
  int64_t rows_;
  const uint16_t *q_, *k_, *v_;
  uint16_t* y_;
};

void run(kvcal::cuda::AttentionLibrary& library, const Heads& h, int64_t n) {
  constexpr int64_t kBefore = 300, kBehind = 77;
  Attention a(library, h, kBefore + n + kBehind);
  const size_t width = static_cast<size_t>(h.n * h.value_dim);
  const std::string about = "bits of " + std::to_string(n) + " rows, dimensions " + std::to_string(h.key_dim) +
                            " and " + std::to_string(h.value_dim) + ", window " + std::to_string(h.window) + ", ";
  a.forget();
  if (!a.call({{kBefore, 0, n}})) return probe::print_not_run(about + "one call", library.notes().back());
  const std::vector<uint16_t> expected = a.results(kBefore, n);
  const auto compare = [&](const std::string& name, bool ok) {
    if (!ok) return probe::print_not_run(about + name, library.notes().back());
    const std::vector<uint16_t> actual = a.results(kBefore, n);
    int64_t differ = 0, first = -1;
    for (int64_t r = 0; r < n; ++r)
      if (std::memcmp(&actual[static_cast<size_t>(r) * width], &expected[static_cast<size_t>(r) * width], width * 2) !=
          0) {
        ++differ;
        if (first < 0) first = r;
      }
    probe::print(about + name, "rows differ", {static_cast<double>(differ)}, ",\"first\":" + std::to_string(first));
  };
  const auto pieces = [&](int64_t of, int64_t least = 64) {
    a.forget();
    bool ok = true;
    for (int64_t at = 0; at < n; at += of) ok = ok && a.call({{kBefore, at, std::min(n, at + of)}}, least);
    return ok;
  };
  a.forget();
  compare("again", a.call({{kBefore, 0, n}}));
  a.forget();
  compare("larger plan", a.call({{kBefore, 0, n}}, 8192));
  a.forget();
  compare("between two others", a.call({{0, 0, kBefore}, {kBefore, 0, n}, {kBefore + n, 0, kBehind}}));
  for (const int64_t of : {64, 128, 256, 512, 1024}) {
    compare("pieces of " + std::to_string(of), pieces(of));
    compare("pieces of " + std::to_string(of) + ", larger plans", pieces(of, 8192));
  }
}

}  // namespace

int main() {
  const auto library = probe::open_attention("bits of attention");
  if (!library) return 0;
  for (const Heads& h : {Heads{4, 2, 16, 16, 0},
                         {8, 2, 64, 64, 0},
                         {8, 2, 128, 128, 0},
                         {8, 2, 128, 128, 300},
                         {4, 1, 256, 256, 0},
                         {4, 4, 192, 128, 0}})
    for (const int64_t n : {341, 1100, 5000}) run(*library, h, n);
  return 0;
}
