// Statistics of one site, or of a layer's states, while the layer runs on a device: counted there, fetched once, and
// added to the tables of the host, which give them their form. Nothing here waits for the device before fold_into(),
// and that waits only for what was queued before close(): the device goes on with the next layer meanwhile.
#pragma once

#include <cstdint>
#include <vector>

#include "base/thread_pool.h"
#include "model/batch.h"
#include "ops/ops.h"
#include "stats/row_ranks.h"
#include "stats/site_tables.h"
#include "stats/state_tables.h"

namespace kvcal {

class DeviceTables {
 public:
  /// Device and ranks must outlive the tables.
  DeviceTables(Ops& device, const KvLayout& layout, CacheSite site, const RowRanks& ranks);
  DeviceTables(Ops& device, const StateLayout& layout, const RowRanks& ranks);

  /// Queues the counting of x [tokens, heads, width], which is on the device.
  void add(const Tensor& x, const Batch& batch);

  /// The same of states, each with the token that it has seen last.
  void add(std::span<const Tensor> states, std::span<const Segment> last_tokens);

  /// The last tensor was added.
  void close() { closed_ = device_.mark(); }

  /// After close(): adds what was counted.
  void fold_into(SiteTables& site, ThreadPool& pool) const;
  void fold_into(StateTables& states, ThreadPool& pool) const;

  /// Memory of the device for so many cells (RowRanks::cells).
  static int64_t bytes(const KvLayout& layout, CacheSite site, int64_t n_cells);
  static int64_t bytes(const StateLayout& layout, int64_t n_cells);

 private:
  DeviceTables(Ops& device, const TapShape& shape, const RowRanks& ranks);

  /// What the tables need to know of a segment's rows, in pieces of one kind of token each.
  std::vector<TapRows> describe(const Segment& segment);

  template <class Tables>
  void fold(Tables& tables, ThreadPool& pool) const;

  /// The largest codes by cell: of prompts, and of kinds of tokens.
  void add_cells(const uint64_t* codes, CountedSite& counted) const;

  Ops& device_;
  const RowRanks& ranks_;
  TapTables tables_;
  Ops::Mark closed_;
  int64_t n_buckets_ = 0;  // of positions, as far as rows came by
  std::vector<uint64_t> kind_tokens_;
  uint64_t n_tokens_ = 0;
};

}  // namespace kvcal
