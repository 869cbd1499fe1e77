// Observer: the tap that turns every key, value, latent row and query of a run into statistics.
//
// Everything counted is an integer or an exact maximum, so the result does not depend on the number of threads, on how
// sequences were cut into batches, or on the order of batches. Values are rounded to bf16 here, whatever the
// activations are. Dense tables exist only while their layer runs; layer_done() checks them, encodes them sparsely and
// frees them. Nothing is sampled: every element of every token counts.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "model/batch.h"
#include "model/kv_tap.h"
#include "model/model_spec.h"
#include "ops/ops.h"
#include "stats/attention_sampler.h"
#include "stats/run_record.h"
#include "stats/statistics.h"

namespace kvcal {

/// What a run is going to feed: the observer's measure of completeness.
struct ObservationPlan {
  int n_passes = 0;
  std::vector<std::string> prompt_ids;  // sorted; Segment::prompt is an index into it
  std::vector<Segment> segments;        // all pieces of all measured sequences, in any order; `row` is not read
  // By prompt: the kind of each of its tokens (base/token_kind.h). Empty: kinds are not told apart.
  std::vector<std::vector<uint8_t>> kinds{};
  // By sequence: those among the segments that do not come by, because this one's rows are theirs.
  std::map<int64_t, std::vector<Repeat>> repeats{};
};

/// How much of a run a device observes.
struct ObservedExtent {
  int64_t n_samples = 0;  // n_sampled() of the plan's segments
  int64_t n_prompts = 0;
  int n_passes = 0;
  SampleOptions sample{};
  Precision precision = Precision::BF16;
};

class Observer final : public KvTap {
 public:
  /// `device` counts tensors that are not on the host, in its own memory; without one such a
  /// tensor is an error. Pool and device must outlive the observer. Throws Error when the plan contradicts itself.
  Observer(const ModelSpec& spec, ObservationPlan plan, ThreadPool& pool, Ops* device = nullptr,
           const SampleOptions& sample = {});
  ~Observer() override;

  /// Each counts the tensor (BF16 or F32) and returns it. Throws Error for a shape that does not fit the cache, and for
  /// tokens that are not in the plan.
  Tensor query(int cache, const Tensor& q, const Batch& batch) override;
  Tensor key(int cache, const Tensor& k, const Batch& batch) override;
  Tensor value(int cache, const Tensor& v, const Batch& batch) override;
  Tensor latent(int cache, const Tensor& row, const Batch& batch) override;

  bool samples() const override { return true; }
  void layer_input(const Tensor& x) override;

  /// Samples what rounding of the cache does to the attention of some rows of pass 1.
  void attention(Ops& op, int cache, const TappedAttention& attention, const Batch& batch) override;

  /// Counts the recurrent states of layers (stats/state_observer.h).
  StateCounter* state_counter() override;

  /// Throws Error when a site of the layer's caches did not see every planned token exactly once (layer, site,
  /// expected, actual, which token), or saw infinity or NaN (layer, site, head, prompt, token, position of the first
  /// one). A cache that other layers share is finished with the last of them; each of them brings every query again,
  /// and all of them count. What a device has counted is looked at when the next layer is done, or by take(): until
  /// then it goes on working.
  void layer_done(int layer) override;

  /// Moves the caches finished so far out, for a record of the run up to here; restore() puts them back.
  Statistics lend_finished(RunRecord run);

  /// Takes the caches of an earlier part of the same run as finished. Throws Error when they are none of this model's
  /// or of another plan.
  void restore(Statistics earlier);

  /// The finished statistics; prompt ids and number of passes of `run` are set here. Call once. Throws Error when a
  /// layer was never finished.
  Statistics take(RunRecord run);

  /// Upper bound of the memory that the dense tables of the largest layer take, plus an estimate of the encoded
  /// statistics of all caches.
  static int64_t bytes_needed(const ModelSpec& spec, int64_t n_tokens, int64_t n_prompts, int n_passes);

  /// Memory of the device for the tables and the sampled figures of a layer and of the one before, where tensors are on
  /// one. The host needs the above too.
  static int64_t device_bytes_needed(const ModelSpec& spec, const ObservedExtent& extent);

 private:
  struct State;
  void observe(int cache, CacheSite site, const Tensor& x, const Batch& batch);

  std::unique_ptr<State> state_;
};

}  // namespace kvcal
