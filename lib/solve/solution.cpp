#include "solve/solution.h"

#include "base/error.h"

namespace kvcal {
namespace {

// What a solution takes from the run record, so that a merged or foreign file fails with a sentence.
void check_record(const Statistics& statistics) {
  const RunRecord& run = statistics.run;
  if (run.heads)
    fail("the statistics have the heads of rank " + std::to_string(run.heads->rank) + " of " +
         std::to_string(run.heads->size) + ": scales need all ranks, see 'kvcal merge'");
  if (run.shard)
    fail("the statistics are shard " + std::to_string(run.shard->index) + " of " + std::to_string(run.shard->count) +
         " of a run: scales need all shards, see 'kvcal merge'");
  if (!run.model) fail("the statistics do not say which model they are of");
  if (!run.calibration)
    fail("the statistics do not say what was fed: runs of different plans were merged without a new description");
  if (!run.layers_without_kv) fail("the statistics do not say which layers own no cache");
  if (statistics.caches.empty()) fail("the statistics hold no KV cache: there is nothing to make scales for");
  constexpr int64_t kMostLayers = 1 << 20;  // a limit for files from strangers, far beyond any model
  const int64_t n_layers = run.model->n_layers + run.model->n_mtp_layers;
  if (n_layers < 1 || n_layers > kMostLayers) fail("model.n_layers is " + std::to_string(n_layers));
  int before = -1;
  for (const CacheStatistics& cache : statistics.caches) {
    if (cache.layout.layer <= before || cache.layout.layer >= n_layers)
      fail("the statistics hold a cache of layer " + std::to_string(cache.layout.layer) + " after one of layer " +
           std::to_string(before) + ", in a model of " + std::to_string(n_layers) + " layers");
    before = cache.layout.layer;
  }
}

}  // namespace

Solution solve(const Statistics& statistics, const SolveOptions& options) {
  check(options);
  check_record(statistics);
  Solution solution(options);
  solution.max_model_len = max_model_len_of(statistics.run, options);
  for (const CacheStatistics& cache : statistics.caches)
    solution.caches.push_back(solve_cache(cache, statistics.run, options));
  solution.beyond = prompts_beyond(statistics, options);
  return solution;
}

}  // namespace kvcal
