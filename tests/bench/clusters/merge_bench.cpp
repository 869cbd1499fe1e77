// Processor seconds and bytes of what two ranks do to add their statistics: merge_bench LAYERS QUERY_HEADS KV_HEADS
// WIDTH [LATENT] with WIDTH of keys and values (of MLA: of queries, and LATENT columns of the row besides 64 rotated
// ones). One layer's tables are of normally distributed numbers, whose deviation differs by channel; all layers have
// the same.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>

#include "stats/merge.h"
#include "stats/observer.h"
#include "stats/packed_tables.h"

namespace kvcal {
namespace {

constexpr int64_t kTokens = 2048;

KvLayout cache_of(int64_t heads, int64_t kv_heads, int64_t width, int64_t latent) {
  KvLayout l;
  l.name = "layers.0.self_attn";
  l.n_heads = heads;
  l.n_kv_heads = kv_heads;
  l.head_dim_k = l.head_dim_v = l.rotary_dim = width;
  l.pair_bound = PairBound::Neox;
  if (latent > 0) {
    l.kind = "mla";
    l.n_kv_heads = 1;
    l.latent_dim = l.head_dim_v = latent;
    l.rotary_dim = 64;
    l.head_dim_k = latent + l.rotary_dim;
  }
  return l;
}

Storage values(int64_t heads, int64_t width, unsigned seed) {
  Storage storage({kTokens, heads, width}, DType::BF16);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < kTokens * heads * width; ++i)
    storage.tensor().as<bf16>()[i] = to_bf16(std::ldexp(normal(random), static_cast<int>(i % width) % 4));
  return storage;
}

/// One of two sequences of a plan.
Statistics part(const ModelSpec& spec, int64_t sequence) {
  const KvLayout& l = spec.caches[0];
  ThreadPool pool(1);
  ObservationPlan plan{1, {"a", "b"}, {{sequence, 1, sequence, 0, 0, 0, kTokens}}, {}};
  Batch batch;
  batch.ids.resize(kTokens);
  batch.segments = plan.segments;
  Observer observer(spec, plan, pool);
  const auto seed = static_cast<unsigned>(3 * sequence);
  if (l.is_mla()) {
    observer.latent(0, values(1, l.head_dim_k, seed).tensor(), batch);
  } else {
    observer.key(0, values(l.n_kv_heads, l.head_dim_k, seed).tensor(), batch);
    observer.value(0, values(l.n_kv_heads, l.head_dim_v, seed + 1).tensor(), batch);
  }
  observer.query(0, values(l.n_heads, width_of(l, CacheSite::Query), seed + 2).tensor(), batch);
  observer.layer_done(0);
  return observer.take({});
}

Statistics deep(const Statistics& one, int layers) {
  Statistics all = one;
  for (int i = 1; i < layers; ++i) {
    all.caches.push_back(one.caches[0]);
    all.caches.back().layout.cache = all.caches.back().layout.layer = i;
  }
  return all;
}

/// Of the processor: nothing here waits.
template <class F>
double seconds_of(F f) {
  const std::clock_t start = std::clock();
  f();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

void run(int layers, const KvLayout& layout) {
  ModelSpec spec;
  spec.caches = {layout};
  spec.layers = {{.index = 0, .cache = 0}};
  const Statistics a = deep(part(spec, 0), layers), b = deep(part(spec, 1), layers);
  std::string bytes;
  Statistics read, merged;
  const double packing = seconds_of([&] { bytes = packed_tables(b); });
  const double unpacking = seconds_of([&] { read = unpacked_tables(bytes, a); });
  const double merging = seconds_of([&] { merged = merge(a, read); });
  std::printf(
      "%d layers, %lld query heads: %.1f MB; packing %.3f s, unpacking and checking %.3f s, merging %.3f s; sum %.1f "
      "MB\n",
      layers, static_cast<long long>(layout.n_heads), static_cast<double>(bytes.size()) / 1e6, packing, unpacking,
      merging, static_cast<double>(packed_tables(merged).size()) / 1e6);
}

}  // namespace
}  // namespace kvcal

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  kvcal::run(std::atoi(argv[1]), kvcal::cache_of(std::atoll(argv[2]), std::atoll(argv[3]), std::atoll(argv[4]),
                                                 argc > 5 ? std::atoll(argv[5]) : 0));
}
