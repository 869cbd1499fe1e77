// One layer's weights and its forward; the embedding before the first and the head after the last layer.
#pragma once

#include "model/batch.h"
#include "model/kv_tap.h"
#include "model/layer_state.h"
#include "ops/ops.h"

namespace kvcal {

/// Skip: the caller needs nothing after the last tap (the last layer with a cache, when no logits are wanted).
enum class Tail : uint8_t { Full, Skip };

class Block {
 public:
  virtual ~Block() = default;

  /// x, the residual stream [tokens, residual width] -> the same after this layer. With Tail::Skip the result is
  /// meaningless. Chunked prefill, continuation and token-by-token generation are the same call.
  virtual Tensor forward(Ops& op, const Tensor& x, const Batch& batch, LayerStates& states, KvTap& tap, Tail tail) = 0;
};

class Embedding {
 public:
  virtual ~Embedding() = default;
  virtual Tensor forward(Ops& op, const Batch& batch) = 0;  // [tokens, hidden]

  /// The residual stream that the first layer reads, made of these rows, among which an encoder's may be.
  virtual Tensor stream(Ops& /*op*/, const Tensor& rows) { return rows; }
};

class Head {
 public:
  virtual ~Head() = default;
  virtual Tensor forward(Ops& op, const Tensor& x) = 0;  // [rows, residual width] -> logits [rows, vocab]
};

}  // namespace kvcal
