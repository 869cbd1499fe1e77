#include "prefill/block_loader.h"

namespace kvcal {

BlockLoader::BlockLoader(const Model& model, Ops& op, ModelWeights& weights, int first, int end)
    : model_(model), op_(op), weights_(weights), end_(end) {
  if (op.reader() && first < end) begin(first);
}

BlockLoader::~BlockLoader() {
  if (WeightReader* const reader = op_.reader()) reader->cancel();  // before next_ frees what it reads into
}

void BlockLoader::begin(int layer) {
  WeightReader* const reader = op_.reader();
  next_layer_ = layer;
  reader->collect(weights_.text.files());
  try {
    ModelWeights stored = weights_.as_stored();
    next_ =
        while_doing("loading layer " + std::to_string(layer), [&] { return load_layer(model_, layer, op_, stored); });
    reader->start();
  } catch (...) {
    reader->cancel();
    throw;
  }
}

std::unique_ptr<Block> BlockLoader::take(int layer) {
  WeightReader* const reader = op_.reader();
  std::unique_ptr<Block> block;
  if (reader) {
    if (next_layer_ != layer) begin(layer);
    reader->finish();
    block = std::move(next_);
  } else {
    if (layer + 1 < end_) tensors_of(layer + 1).prefetch();
    block = load_layer(model_, layer, op_, weights_);
  }
  tensors_of(layer).release();  // the block holds its own form of them
  if (reader && layer + 1 < end_) begin(layer + 1);
  return block;
}

}  // namespace kvcal
