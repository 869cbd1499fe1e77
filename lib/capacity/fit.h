// How many sequences of which length fit the GPUs.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "capacity/cache_cost.h"
#include "capacity/weight_bytes.h"
#include "model/model_spec.h"

namespace kvcal {

/// Shares of a GPU's memory that servers take: what the system keeps of memory that a GPU shares with it does not fit
/// into what they leave by default.
constexpr double kUtilization = 0.9, kUtilizationOfUnified = 0.85;

/// The server and its machine, as far as memory goes.
struct Deployment {
  uint64_t gpu_memory = 0;                 // bytes of one GPU
  bool unified = false;                    // which are the system's memory, too
  int capability = 0;                      // of an NVIDIA GPU, 90 for 9.0; 0: not known
  bool rocm = false;                       // an AMD GPU
  int64_t gpus = 1, tp = 1;                // gpus / tp replicas of the model
  double utilization = kUtilization;       // share of a GPU that the server takes
  uint64_t allowance = uint64_t{3} << 30;  // of it for activations and the runtime, on each GPU
  std::vector<int> kept_layers;            // that keep their cache in BF16 whatever the format
  std::vector<StoredLayer> recipe;         // a format for each layer; empty: none
  StateStorage state = {};
  int64_t replicas() const { return gpus / tp; }
};

/// Whether some server has kernels for such a cache on this GPU; true where it is not known. Of NVFP4 by the table of
/// deployment/cache_choices.cpp. Below sm_80 vLLM has only Triton's kernels, which cannot be compiled for E4M3 there
/// (vllm#35720).
bool takes_format(const Deployment& deployment, KvFormat format, const ModelSpec& spec);

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
  std::vector<std::pair<KvFormat, Fit>> fits;  // of the formats that model and GPU take; BF16 and FP8 always
  std::optional<Fit> recipe;                   // where the deployment has one

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
