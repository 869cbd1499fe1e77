// Dense statistics of one site of one cache while its layer runs: the heads' tables and what all heads share.
#pragma once

#include <cstdint>
#include <vector>

#include "base/thread_pool.h"
#include "base/token_kind.h"
#include "model/batch.h"
#include "stats/head_tables.h"
#include "stats/statistics.h"
#include "tensor/tensor.h"

namespace kvcal {

/// What a device counted of one site.
struct CountedSite {
  std::vector<CountedHead> heads;
  std::vector<uint16_t> position_absmax, prompt_absmax, kind_absmax;  // as in SiteStatistics
  std::vector<uint64_t> kind_tokens;
  uint64_t n_tokens = 0;
};

/// The kind of each token of each prompt; empty where kinds are not told apart.
using KindsByPrompt = std::vector<std::vector<uint8_t>>;

class SiteTables {
 public:
  /// `kinds` must outlive the tables.
  SiteTables(const KvLayout& layout, CacheSite site, int n_passes, int64_t n_prompts, const KindsByPrompt& kinds);

  /// x [tokens, heads, at least from + width] on the host, BF16 or F32 (rounded here); of every head the channels from
  /// `from` on. Heads are shared out to the pool's threads.
  void add(const Tensor& x, const Batch& batch, ThreadPool& pool, int64_t from = 0);

  /// Adds what was counted elsewhere, of the same site and prompts.
  void add(const CountedSite& counted, ThreadPool& pool);

  /// Infinity or NaN with the smallest place over all heads, or null; and how many values were not finite.
  const NonFinite* first_non_finite() const;

  SiteStatistics encode(ThreadPool& pool);

  static int64_t bytes(const KvLayout& layout, CacheSite site);

 private:
  void add_maxima(const Batch& batch);
  void add_kinds(const Segment& segment);

  int64_t width_, n_prompts_;
  std::vector<HeadTables> heads_;
  std::vector<uint16_t> row_absmax_;       // [heads][tokens] of the current batch
  std::vector<uint16_t> position_absmax_;  // by bucket
  std::vector<uint16_t> prompt_absmax_;    // [n_passes][n_prompts]
  const KindsByPrompt& kinds_;
  std::vector<uint16_t> kind_absmax_;  // [n_passes][kTokenKinds], or nothing
  std::vector<uint64_t> kind_tokens_;  // [kTokenKinds], or nothing
  uint64_t n_tokens_ = 0;
};

}  // namespace kvcal
