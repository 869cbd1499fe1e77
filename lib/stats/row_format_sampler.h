// Which rows are tried in formats with scales of their own (row_formats.h), and what becomes of the sums.
#pragma once

#include "base/thread_pool.h"
#include "model/batch.h"
#include "model/kv_tap.h"
#include "stats/row_formats.h"
#include "stats/statistics.h"

namespace kvcal {

/// Of one cache, while its owner runs. Rows that are on a device are kept there and looked at in the end, when this
/// holds nothing up.
class RowFormatSampler {
 public:
  /// `most_rows`: what a device has room for from the first row on; more make it take room again.
  explicit RowFormatSampler(int64_t most_rows = 0) : most_rows_(most_rows) {}

  /// Adds the sampled rows of a batch.
  void add(Ops& op, const KvLayout& layout, const TappedAttention& attention, const Batch& batch, ThreadPool& pool);

  /// Upper bound of what so many rows take of a device.
  static int64_t bytes(const KvLayout& layout, int64_t n_rows, Precision precision);

  /// No more comes. Rows that are not on the host are fetched by fold_into(), which waits for no later work.
  void close();
  void fold_into(CacheStatistics& cache, ThreadPool& pool);

 private:
  void keep(Ops& op, const TappedAttention& attention, const std::vector<int32_t>& rows);
  void fetch(const KvLayout& layout, ThreadPool& pool);
  void count(const KvLayout& layout, const Tensor& key_or_row, const Tensor& value, std::span<const int32_t> rows,
             ThreadPool& pool);

  int64_t most_rows_;
  Ops* op_ = nullptr;
  Ops::Mark closed_{};
  KvRows kept_;  // sampled rows of all batches, on a device
  RowFormatTables key_or_row_, value_;
};

}  // namespace kvcal
