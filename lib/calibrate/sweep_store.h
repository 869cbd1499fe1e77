// Where a sweep leaves the ends of its layers, and from where it goes on.
#pragma once

#include "prefill/runner.h"
#include "stats/observer.h"

namespace kvcal {

class SweepStore {
 public:
  virtual ~SweepStore() = default;

  /// Before the run: gives the observer the statistics of the layers that are done. It and `record` are what those of
  /// further layers may be taken from while rows() saves.
  virtual void observe(Observer& observer, RunRecord record) = 0;

  virtual RunStore& rows() = 0;
};

}  // namespace kvcal
