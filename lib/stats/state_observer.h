// Turns the recurrent states of a run into statistics, layer by layer: what the Observer is to keys and values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/thread_pool.h"
#include "ops/ops.h"
#include "stats/device_tables.h"
#include "stats/observer.h"
#include "stats/row_ranks.h"
#include "stats/state_statistics.h"
#include "stats/state_tables.h"

namespace kvcal {

class StateObserver final : public StateCounter {
 public:
  /// `plan`, pool and device must outlive it; without a device a state that is not on the host is an error.
  StateObserver(const ModelSpec& spec, const ObservationPlan& plan, ThreadPool& pool, Ops* device);

  /// Throws Error for a layer, a sequence or a place that is not to come now.
  void count_states(int layer, std::span<const PassedState> states) override;

  /// Throws Error when some planned state of the layer was not counted, or one holds infinity or NaN; of those on a
  /// device that is known when the next layer is done. Layers without a state are passed over.
  void layer_done(int layer);

  /// As those of the Observer.
  std::vector<StateStatistics> lend_finished();
  void restore(std::vector<StateStatistics> earlier);
  std::vector<StateStatistics> take();

  /// Whether anything is to be counted.
  bool empty() const { return layers_.empty(); }

  /// Upper bound of what the tables of a layer take, and an estimate of the encoded statistics of all.
  static int64_t bytes_needed(const ModelSpec& spec, int64_t n_prompts, int n_passes);

 private:
  struct Layer {
    StateLayout layout;
    std::map<int64_t, int64_t> passed{};  // of each sequence, at its last count
    std::optional<StateTables> tables{};
    std::optional<DeviceTables> on_device{};  // until these are added to the tables
    bool waiting = false;                     // its layer is done, counted on the device and not yet fetched
    std::optional<StateStatistics> done{};
  };
  struct PlannedSequence {
    std::vector<Segment> segments;  // by position
    int64_t n_tokens = 0;
  };

  /// Of a state: the token that it has seen last.
  Segment last_token(int64_t sequence, int64_t passed) const;
  std::span<const Repeat> repeats_of(int64_t sequence) const;
  Layer* layer_of(int layer);
  StateTables& on_host(Layer& layer);
  void check_place(Layer& layer, const PassedState& state);
  void count(Layer& layer, std::span<const Tensor> states, std::span<const Segment> last_tokens);
  void finish(Layer& layer);
  void finish_waiting();
  void check_counted(const Layer& layer) const;
  uint64_t expected() const;

  const ObservationPlan& plan_;
  ThreadPool& pool_;
  Ops* device_;
  std::optional<RowRanks> ranks_;  // once a state is not on the host
  std::map<int64_t, PlannedSequence> sequences_;
  std::vector<Layer> layers_;  // ascending
};

}  // namespace kvcal
