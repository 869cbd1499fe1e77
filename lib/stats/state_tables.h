// Dense counters of a layer's recurrent states while the layer runs.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/thread_pool.h"
#include "stats/head_tables.h"
#include "stats/site_tables.h"
#include "stats/state_statistics.h"
#include "tensor/tensor.h"

namespace kvcal {

class StateTables {
 public:
  StateTables(const StateLayout& layout, int n_passes, int64_t n_prompts);

  /// A state on the host, F32, and the place of the last token that it has seen. Heads are shared out to the threads.
  void add(const Tensor& state, const Provenance& at, ThreadPool& pool);

  /// Adds what was counted elsewhere, of the same layer and prompts.
  void add(const CountedSite& counted, ThreadPool& pool);

  /// Infinity or NaN with the smallest place over all heads, or null.
  const NonFinite* first_non_finite() const;

  /// The sparse form.
  SiteStatistics encode() const;

  static int64_t bytes(const StateLayout& layout);

 private:
  struct Head {
    std::vector<uint64_t> codes;  // [32768]
    uint16_t absmax = 0;
    Provenance where;
    bool seen = false;  // anything finite
    std::optional<NonFinite> non_finite;
    uint16_t add(const float* x, int64_t n, const Provenance& at);
    void add(const CountedHead& counted);
    void keep_absmax(uint16_t code, const Provenance& at);
    void keep_non_finite(const NonFinite& found);
    HeadStatistics encode() const;
  };

  StateLayout layout_;
  int64_t n_prompts_;
  std::vector<Head> heads_;
  std::vector<uint16_t> position_absmax_, prompt_absmax_;  // as in SiteStatistics
  uint64_t n_states_ = 0;
};

}  // namespace kvcal
