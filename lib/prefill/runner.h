// Runs sequences through a model layer by layer: a layer's weights are read once and serve every batch of every pass;
// only the residual stream lives between layers. So a model larger than memory can run, and the only KV cache kept is
// that of layers whose rows others read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "model/architecture.h"
#include "prefill/batching.h"
#include "prefill/block_loader.h"
#include "prefill/memory_plan.h"
#include "prefill/model_weights.h"
#include "prefill/sequence_plan.h"

namespace kvcal {

/// How far a group of sequences runs: LastKv ends after the last tap, Logits goes through the head.
enum class Until : uint8_t { LastKv, Logits };

/// Receives the last hidden states of a group that runs Until::Logits, batch by batch in row order.
class LogitsSink {
 public:
  virtual ~LogitsSink() = default;
  /// x [tokens, hidden] before the final norm; head.forward(op, rows of x) gives logits. Both last until it returns.
  virtual void hidden(Ops& op, const Tensor& x, const Batch& batch, Head& head) = 0;

  /// Rows that it takes at a time, where logits of a whole batch would be too many: of the batch it is then shown ids
  /// and segments alone.
  virtual std::optional<int64_t> most_rows() const { return {}; }
};

/// Sequences that share a tap and a destination. The tap may look away (NoTap): warm-ups, sanity sequences.
struct SequenceGroup {
  const std::vector<Sequence>* sequences = nullptr;
  KvTap* tap = nullptr;
  Until until = Until::LastKv;
  LogitsSink* sink = nullptr;  // with Until::Logits
  /// Above 0: before this layer it is the group of this index in all it has, with the same sequences, and costs
  /// nothing. Not between the owner of a cache and a layer that shares it, nor between a layer whose choice of keys
  /// another takes and that one (Runner::can_branch).
  int first_layer = 0;
  size_t branch_of = 0;
  StateFormat state{};  // how recurrent states are stored
};

/// What the caller hears while a run goes on; called after every batch. May throw to stop the run.
struct RunStep {
  int layer = 0, n_layers = 0;  // layer just worked on; layers this run will touch
  int64_t tokens = 0;           // rows just done
};

/// Keeps the rows of a run between two layers, so that a run that was stopped can go on. It is asked to only where
/// nothing else crosses a layer's end: not between the owner of a cache and the last layer that shares it.
class RunStore {
 public:
  virtual ~RunStore() = default;
  /// Layers that need not run again; 0 for a fresh run.
  virtual int layers_done() const = 0;
  /// Fills the rows as they were after layers_done() layers, one tensor for each group that still runs, in order of
  /// groups. Called once, and only when layers_done() > 0.
  virtual void restore(std::span<const Tensor> rows) = 0;
  /// Whether save() is to be called after so many layers.
  virtual bool keeps(int /*layers_done*/) const { return true; }
  /// After a layer that another follows: the same tensors.
  virtual void save(int layers_done, std::span<const Tensor> rows) = 0;
};

class Runner {
 public:
  /// Memory grows as it is needed.
  Runner(const Model& model, Ops& op, ModelWeights& weights, int64_t chunk_tokens)
      : model_(model), op_(op), weights_(weights), plan_{.chunk_tokens = chunk_tokens} {}

  /// Keeps to the plan: what it says of a device's memory is taken before anything runs.
  Runner(const Model& model, Ops& op, ModelWeights& weights, const MemoryPlan& plan)
      : model_(model), op_(op), weights_(weights), plan_(plan) {}

  void on_step(std::function<void(const RunStep&)> step) { step_ = std::move(step); }

  /// Goes on where `store` says, and leaves every layer's end there.
  void keep_in(RunStore& store) { store_ = &store; }

  /// Whether a group may begin before this layer as a copy of another: nothing crosses there but residual rows.
  static bool can_branch(const ModelSpec& spec, int layer);

  /// One sweep over the layers for all groups; behind them the sinks, for each batch, and each of the parts that they
  /// take, in order of groups. Errors name the layer.
  void run(const std::vector<SequenceGroup>& groups, const std::vector<PromptTokens>& prompts);

 private:
  struct Stream;  // one group with its batches and residual rows

  void run_layers(int first, BlockLoader& blocks, std::vector<Stream>& streams, bool logits);
  void run_block(int layer, Block& block, std::vector<Stream>& streams);
  void run_batch(int layer, Block& block, Stream& stream, size_t i, int64_t row);
  void run_mtp_batch(int layer, Block& block, Stream& stream, size_t i, int64_t row);
  void run_head(std::vector<Stream>& streams);
  void embed(std::vector<Stream>& streams);
  bool works_on(const Stream& stream, int layer) const;
  void branch(int layer, std::vector<Stream>& streams);
  std::vector<ResidualRows*> rows_before(int layer, const std::vector<Stream>& streams) const;
  void restore(int layer, const std::vector<Stream>& streams);
  void save(int layer, const std::vector<Stream>& streams);

  const Model& model_;
  Ops& op_;
  ModelWeights& weights_;
  MemoryPlan plan_;
  int n_layers_ = 0;
  std::function<void(const RunStep&)> step_;
  RunStore* store_ = nullptr;
};

}  // namespace kvcal
