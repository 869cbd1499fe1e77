// Samples attention while a layer runs: which rows, and what becomes of the figures.
//
// Rows are those of pass 1, each prompt alone in its sequence, fixed by their position in the prompt: so what is
// sampled depends on the prompts alone.
#pragma once

#include <cstdint>
#include <vector>

#include "base/thread_pool.h"
#include "model/batch.h"
#include "model/kv_tap.h"
#include "stats/statistics.h"

namespace kvcal {

/// Rows of a batch to sample, ascending, and whether the query of each is tried.
struct SampledRows {
  std::vector<int32_t> rows;
  std::vector<uint8_t> thorough;
  std::vector<RowTokens> tokens;  // that each stands for
};
SampledRows sampled_rows(const Batch& batch);

/// How a run samples: the cache's format, and how many rungs below the lowest that clips nothing, for policies that
/// clip on purpose.
struct SampleOptions {
  SampleFormat format = SampleFormat::E4m3;
  int rungs_below = 0;
};

/// How many rows of a run are sampled.
int64_t n_sampled(const std::vector<Segment>& segments);

/// The layer that reads the cache.
struct ReadingLayer {
  int32_t reader = 0;  // which of them
  Tensor stream{};     // the rows that it reads, [tokens, hidden], where the others are, or absent
};

/// Of one cache.
class AttentionSampler {
 public:
  explicit AttentionSampler(const SampleOptions& options) : options_(options) {}

  void add(Ops& op, const TappedAttention& attention, const Batch& batch, const ReadingLayer& layer, ThreadPool& pool);

  /// Upper bound of what the figures of so many rows take of a device, in however many batches they come.
  static int64_t bytes(int64_t n_heads, int64_t n_rows, const SampleOptions& options);

  /// Sampled rows of a reader so far.
  int64_t n_rows(int32_t reader) const;

  /// No more comes. Figures that are not on the host are fetched by fold_into(), which waits for no later work.
  void close();
  void fold_into(CacheStatistics& cache, ThreadPool& pool);

 private:
  struct Pending {
    AttentionSample sample;
    int32_t reader;
    std::vector<RowTokens> tokens;
  };
  void keep_norms(const ColumnNorms& norms, int64_t n_heads, int64_t n_kv_heads);

  SampleRequest request() const;

  SampleOptions options_;
  Ops* op_ = nullptr;
  Ops::Mark closed_{};
  std::vector<Pending> pending_;
  std::vector<int64_t> n_rows_;      // by reader
  std::vector<float> column_norms_;  // [n_kv_heads, Dv]
  AttentionTables tables_;
};

}  // namespace kvcal
