// Blocks in the order in which layers run, each loaded while the one before it computes where the backend can do that.
#pragma once

#include <memory>

#include "model/architecture.h"
#include "prefill/model_weights.h"

namespace kvcal {

class BlockLoader {
 public:
  /// Layers [first, end) will be asked for, in order. Begins to read the first.
  BlockLoader(const Model& model, Ops& op, ModelWeights& weights, int first, int end);
  ~BlockLoader();
  BlockLoader(const BlockLoader&) = delete;
  BlockLoader& operator=(const BlockLoader&) = delete;

  /// The block of a layer, ready to run; the memory of the file is given back. Begins to read the next. The block
  /// before must have been freed.
  std::unique_ptr<Block> take(int layer);

 private:
  WeightBinder tensors_of(int layer) const { return weights_.of_layer(model_.spec(), layer); }
  void begin(int layer);

  const Model& model_;
  Ops& op_;
  ModelWeights& weights_;
  int end_;
  int next_layer_ = -1;  // which next_ is
  std::unique_ptr<Block> next_;
};

/// Loads something that is used at once: load(text, head), the binders of the weights.
template <class F>
auto load_now(Ops& op, const ModelWeights& weights, F&& load) {
  WeightReader* const reader = op.reader();
  WeightBinder text = reader ? weights.text.as_stored() : weights.text,
               head = reader ? weights.head.as_stored() : weights.head;
  if (!reader) return load(text, head);
  try {
    reader->collect(weights.text.files());
    auto loaded = load(text, head);
    reader->finish();
    return loaded;
  } catch (...) {
    reader->cancel();
    throw;
  }
}

}  // namespace kvcal
