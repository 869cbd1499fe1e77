// What an encoder of images or videos made of a prompt: rows in place of the embeddings of its placeholder tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tensor/tensor.h"
#include "vision/patches.h"

namespace kvcal {

struct EncoderRows {
  Tensor embeddings;               // [n, hidden], host: for the placeholder tokens in order
  std::vector<Tensor> deepstack;   // [n, hidden] each: added to the residual stream after layers 0, 1, ...
  std::vector<int32_t> positions;  // [n_axes][n_tokens] of the prompt, from 0
  int64_t n_axes = 0;
  std::vector<int32_t> row_of;         // [n_tokens]: row of the tensors, -1 for a token with an embedding of its own
  std::vector<int32_t> last_seen;      // [n_tokens]: the last token that each attends to; empty: itself
  std::shared_ptr<const void> memory;  // of the tensors
  std::vector<Picture> pictures;       // in order: of what the rows are yet to be made; none where a file has them
};

/// A row of a batch that an encoder made.
struct EncodedToken {
  int64_t row = 0;  // of the batch
  const EncoderRows* from = nullptr;
  int64_t index = 0;  // row of its tensors
};

/// last_seen of a prompt whose images are seen whole: each is a run of encoder's rows without a token between them.
std::vector<int32_t> ends_of_images(const std::vector<int32_t>& row_of);

struct Batch;
class Ops;

/// x [tokens, hidden] with the encoder's rows of the batch in place of its own.
Tensor with_encoder_rows(Ops& op, const Tensor& x, const Batch& batch);

/// x [tokens, hidden] plus stream `layer` of deepstack, on the encoder's rows.
Tensor with_deepstack(Ops& op, const Tensor& x, const Batch& batch, int layer);

}  // namespace kvcal
