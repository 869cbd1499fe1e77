// Which rows are tried in formats with scales of their own (row_formats.h), and what becomes of the sums.
#pragma once

#include "base/thread_pool.h"
#include "model/batch.h"
#include "model/kv_tap.h"
#include "stats/row_formats.h"
#include "stats/statistics.h"

namespace kvcal {

/// Of one cache, while its owner runs.
class RowFormatSampler {
 public:
  /// Adds the sampled rows of a batch. Those that are on a device are left out: fetching them would hold it up.
  void add(const KvLayout& layout, const TappedAttention& attention, const Batch& batch, ThreadPool& pool);

  void fold_into(CacheStatistics& cache) const;

 private:
  RowFormatTables key_or_row_, value_;
};

}  // namespace kvcal
