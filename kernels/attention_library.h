// Causal attention of a library, behind an interface: the backend offers it what it may be able to do, and does the
// rest, and whatever the library refuses, with its own kernels.
#pragma once

#include <cuda_runtime.h>

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace kvcal::cuda {

/// What a library builds a plan for, once: bounds instead of exact lengths, so that few plans serve many batches.
struct AttentionPlan {
  int64_t n_sequences = 0, most_queries = 0, most_keys = 0;
  int64_t n_heads = 0, n_kv_heads = 0, key_dim = 0, value_dim = 0, window = 0;  // window: as in AttentionSpec
  float scale = 0.0f;
  bool continued = false;  // the queries are the last rows of the keys; else there are as many of both
  auto operator<=>(const AttentionPlan&) const = default;
};

/// One call of a plan: bf16 rows on the device, those of a sequence one after the other, [rows, heads, dim]. The
/// counts and offsets are on the device, too; no sequence is empty.
struct AttentionCall {
  const void *q, *k, *v;
  void* y;
  const int32_t *n_queries, *n_keys;                         // [n_sequences]
  const int64_t *q_offset, *k_offset, *v_offset, *y_offset;  // in elements, [n_sequences + 1], ascending
};

class AttentionLibrary {
 public:
  virtual ~AttentionLibrary() = default;

  /// "cudnn-9.19.0"; empty where the library cannot be used. Opens it. Part of Ops::isa(), with its letters: those of
  /// the artifact's schema.
  virtual std::string identity() = 0;

  /// Queues the call; false, and a note why, when the library has no plan for it. Throws Error when it has one that
  /// fails: for the backend that ends the plan where it is the first call, and the run afterwards.
  virtual bool attend(const AttentionPlan& plan, const AttentionCall& call, cudaStream_t stream) = 0;

  /// What was refused, and why the library is not used: one line each.
  virtual const std::vector<std::string>& notes() const = 0;
};

/// "4 sequences of at most 2048 queries and 2048 keys, 32 heads over 8, dimensions 128 and 128, window 0"
std::string str(const AttentionPlan& plan);

}  // namespace kvcal::cuda
