// How many sequences of which length fit the GPUs.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "capacity/cache_cost.h"
#include "capacity/weight_bytes.h"
#include "deployment/engine.h"
#include "model/model_spec.h"
#include "servers/gpu.h"

namespace kvcal {

/// Shares of a GPU's memory that servers take: what the system keeps of memory that a GPU shares with it does not fit
/// into what they leave by default.
constexpr double kUtilization = 0.9, kUtilizationOfUnified = 0.85;

/// The server and its machine, as far as memory goes.
struct Deployment {
  std::optional<NamedEngine> server = {};  // vLLM or SGLang; none: whichever of both
  uint64_t gpu_memory = 0;                 // bytes of one GPU
  Gpu gpu = {};                            // as far as it is known, but for its memory
  int64_t gpus = 1, tp = 1;                // gpus / tp replicas of the model
  double utilization = kUtilization;       // share of a GPU that the server takes
  uint64_t allowance = uint64_t{3} << 30;  // of it for activations and the runtime, on each GPU
  std::vector<int> kept_layers;            // that keep their cache in BF16 whatever the format
  std::vector<StoredLayer> recipe;         // a format for each layer; empty: none
  StateStorage state = {};
  int64_t replicas() const { return gpus / tp; }
};

/// Whether the server stores this model's cache in a format on this GPU, by deployment/cache_choices.cpp; without a
/// server whether the newest version of one does.
struct FormatOffer {
  KvFormat format = KvFormat::FP8;
  Trait served = Trait::Unknown;
  std::string text;  // the reason, or which server alone does: "vLLM 0.28.0: compute capability 10 alone"; "" for none
};
FormatOffer offer_of(const Deployment& deployment, KvFormat format, const ModelSpec& spec);

/// Throws Error: no GPUs, tp that does not divide them or the heads, utilization outside (0, 1].
void check(const Deployment& deployment, const ModelSpec& spec);

/// Memory of one GPU.
struct Budget {
  int64_t usable = 0, weights = 0, allowance = 0;
  int64_t cache() const { return usable - weights - allowance; }  // negative: the weights alone do not fit
};
Budget budget_of(const Deployment& deployment, const WeightBytes& weights);

/// Answers for one number format of the cache. Sequences are counted over all replicas.
class Fit {
 public:
  Fit(const Deployment& deployment, const Budget& budget, SequenceCost cost);

  const SequenceCost& cost() const { return cost_; }

  /// Sequences of `context` tokens each that fit at a time.
  int64_t sequences(int64_t context) const;

  /// The longest context of which `concurrency` sequences fit, at most `longest`; 0 when none does.
  int64_t context(int64_t concurrency, int64_t longest) const;

  bool holds(int64_t concurrency, int64_t context) const { return sequences(context) >= concurrency; }

 private:
  int64_t replicas_, bytes_;  // of cache on a GPU, not negative
  SequenceCost cost_;
};

/// Everything that a plan rests on.
struct Capacity {
  Deployment deployment;
  WeightBytes weights;
  Budget budget;
  std::vector<FormatOffer> offers;             // of FP8, NVFP4 and INT4
  std::vector<std::pair<KvFormat, Fit>> fits;  // of BF16, FP8 and what else is served
  std::optional<Fit> recipe;                   // where the deployment has one

  const FormatOffer& offer(KvFormat format) const;
  bool has(KvFormat format) const;
  const Fit& at(KvFormat format) const;
};

/// Tokens that the cache of a GPU has room for, as long as no window is full.
int64_t tokens_in(const Budget& budget, const SequenceCost& cost);

/// Throws what check() throws.
Capacity capacity_of(const ModelSpec& spec, const Deployment& deployment, const WeightBytes& weights);

/// Where the table has its rows: powers of two from 4,096 up to the model's limit, and that limit.
std::vector<int64_t> usual_contexts(const ModelSpec& spec);

/// The model's limit, or 2^20 where the config names none.
int64_t longest_context(const ModelSpec& spec);

}  // namespace kvcal
