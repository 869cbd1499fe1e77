// What a process keeps of one calibration for the next one, of the same model with other weights: a layer below the
// first one that changed gives what it gave.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "calibrate/opened_model.h"
#include "calibrate/sweep_store.h"
#include "prefill/memory_plan.h"

namespace kvcal {

class KeptLayers final : public RunStore, public SweepStore {
 public:
  /// Before each run. Reads all weights, and settles from which layer on it has to go: the first one, too, where
  /// anything else that decides numbers differs. `identity` is that, by name, as of identity_of(). Rows, of so many
  /// bytes, are kept behind as many layers, evenly apart, as half of the memory holds that the plan leaves; of the
  /// first run, and of each that goes from the first layer on.
  void begin(const OpenedModel& model, Json identity, const MemoryPlan& plan, uint64_t rows_bytes);

  /// After it, for the next one.
  void keep(Statistics statistics) { statistics_ = std::move(statistics); }

  int layers_done() const override { return layers_done_; }
  bool keeps(int layers_done) const override { return apart_ > 0 && layers_done % apart_ == 0; }
  void restore(std::span<const Tensor> rows) override;
  void save(int layers_done, std::span<const Tensor> rows) override;
  void observe(Observer& observer, RunRecord record) override;
  RunStore& rows() override { return *this; }

 private:
  /// Of a checkpoint's tensors: of each layer, and first of what comes before or is of unknown use. Norm and output
  /// head are in none: they run again each time.
  static std::vector<uint64_t> sums_of(const OpenedModel& model);

  Json identity_;
  std::vector<uint64_t> sums_;
  std::map<int, std::vector<std::vector<std::byte>>> rows_;  // by layers done
  Statistics statistics_;
  int layers_done_ = 0;
  int apart_ = 0;  // layers; 0 = nothing is kept
};

}  // namespace kvcal
