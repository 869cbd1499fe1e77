// How much memory a run will take, decided before it begins.
#pragma once

#include <cstdint>
#include <string>

#include "base/size_text.h"  // what a plan is shown with
#include "model/model_spec.h"
#include "ops/ops.h"
#include "prefill/batching.h"
#include "prefill/model_weights.h"
#include "prefill/sequence_plan.h"

namespace kvcal {

struct MemoryOptions {
  uint64_t budget = 0;       // bytes; 0 = what the machine has available
  int64_t chunk_tokens = 0;  // asked for; 0 = as many as useful and possible
  Precision precision = Precision::BF16;
  uint64_t statistics_bytes = 0;         // dense tables of one layer and the encoded result
  DeviceMemory device;                   // what Ops::device_memory() says; the budget is then of it
  int64_t n_devices = 1;                 // of that kind, which share the measured sequences
  int64_t device_tokens = 0;             // of those sequences on the device that has most; 0 = all of them
  uint64_t device_statistics_bytes = 0;  // tables of one layer there
  int64_t sampled_rows = 0;              // of all prompts: keys and values of a batch's are gathered there
  int64_t measured_groups = 1;           // that the measured sequences are of, each with as many tokens
  int64_t block = 0;                     // MemoryPlan::block
  bool keeps_states = false;  // rounds or counts those of recurrent layers: then every sequence of a batch has one
};

/// All in bytes.
struct MemoryPlan {
  int64_t chunk_tokens = 0;  // rows of a batch, a multiple of 256
  int64_t block = 0;         // above 0: positions of a sequence beyond whose multiples no batch goes
  uint64_t program = 0;      // code, libraries, tokenizer, buffers of fixed size
  uint64_t weights = 0;      // the largest layer (or the head) in computing form
  uint64_t mapped = 0;       // pages of that layer and of the next one, and of embeddings of images, as stored
  uint64_t residual = 0;     // residual stream of all sequences
  uint64_t activations = 0;  // one batch
  uint64_t states = 0;       // recurrent states and rows of cut sequences, one layer; rows that later layers share
  uint64_t statistics = 0;
  uint64_t budget = 0;
  bool on_device = false;   // all of the above is of a device's memory; `program` what its libraries may take
  bool one_memory = false;  // which is the host's: `host` is of the same budget
  ResidualPlace residual_place = ResidualPlace::Device;  // Host: `residual` is the room for two batches
  uint64_t host = 0;                                     // with a device: pinned memory of the host
  MemoryReserve reserve() const { return {activations, weights + residual + states + statistics}; }
  Cut cut() const { return on_device ? Cut::LongOnly : Cut::Anywhere; }
  uint64_t total() const {
    return program + weights + mapped + residual + activations + states + statistics + (one_memory ? host : 0);
  }
};

/// Sizes the batches so that the run fits the budget. On a device the residual stream stays there as long as that
/// leaves room for useful batches, else in pinned memory of the host. Throws Error with the numbers when it cannot.
MemoryPlan plan_memory(const ModelSpec& spec, const ModelWeights& weights, const SequencePlan& sequences,
                       const MemoryOptions& options);

/// Rows of a batch on the CPU beyond which no product gets faster.
int64_t useful_rows(const ModelSpec& spec);

}  // namespace kvcal
