// Rate of the observer per site: values per second on a chunk of 2048 tokens in the shape of a 0.6B model, and on
// channels of very different size, as trained models have.
#include <benchmark/benchmark.h>

#include <cmath>
#include <random>

#include "stats/observer.h"

namespace kvcal {
namespace {

constexpr int64_t kTokens = 2048;

KvLayout layout_06b() {
  KvLayout l;
  l.n_heads = 16;
  l.n_kv_heads = 8;
  l.head_dim_k = l.head_dim_v = l.rotary_dim = 128;
  l.pair_bound = PairBound::Neox;
  return l;
}

/// Normal values; the deviation of channel c is 2^(c % octaves).
Storage values(int64_t heads, int64_t width, int octaves, DType dtype) {
  Storage storage({kTokens, heads, width}, dtype);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < kTokens * heads * width; ++i) {
    const float x = std::ldexp(normal(random), static_cast<int>(i % width) % octaves);
    if (dtype == DType::BF16)
      storage.tensor().as<bf16>()[i] = to_bf16(x);
    else
      storage.tensor().as<float>()[i] = x;
  }
  return storage;
}

void observe(benchmark::State& state, CacheSite site, int octaves, DType dtype) {
  ModelSpec spec;
  spec.caches = {layout_06b()};
  ObservationPlan plan{1, {"a"}, {}};
  const int64_t n_rounds = 20000;
  for (int64_t i = 0; i < n_rounds; ++i) plan.segments.push_back({i, 1, 0, 0, 0, 0, kTokens});
  ThreadPool pool(static_cast<int>(state.range(0)));
  Observer observer(spec, plan, pool);
  const Storage x = values(heads_of(spec.caches[0], site), 128, octaves, dtype);
  Batch batch;
  batch.ids.resize(kTokens);
  int64_t round = 0;
  for (auto _ : state) {
    batch.segments = {plan.segments[static_cast<size_t>(round++)]};
    if (site == CacheSite::Key)
      observer.key(0, x.tensor(), batch);
    else if (site == CacheSite::Value)
      observer.value(0, x.tensor(), batch);
    else
      observer.query(0, x.tensor(), batch);
  }
  state.SetItemsProcessed(round * x.tensor().elements());
}

BENCHMARK_CAPTURE(observe, key, CacheSite::Key, 1, DType::BF16)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK_CAPTURE(observe, value, CacheSite::Value, 1, DType::BF16)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK_CAPTURE(observe, query, CacheSite::Query, 1, DType::BF16)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK_CAPTURE(observe, value_outliers, CacheSite::Value, 9, DType::BF16)->Arg(1)->UseRealTime();
BENCHMARK_CAPTURE(observe, query_outliers, CacheSite::Query, 9, DType::BF16)->Arg(1)->UseRealTime();
BENCHMARK_CAPTURE(observe, value_f32, CacheSite::Value, 1, DType::F32)->Arg(1)->UseRealTime();

}  // namespace
}  // namespace kvcal

BENCHMARK_MAIN();
