// Towers that make of pictures the rows for a language model's placeholder tokens (encoder_rows.h).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "checkpoint/weight_binder.h"
#include "model/model_spec.h"
#include "ops/ops.h"
#include "vision/patches.h"

namespace kvcal {

/// A part of a tower that is loaded alone, and takes the pictures one by one: rows of a picture to rows.
class TowerPart {
 public:
  virtual ~TowerPart() = default;
  virtual Tensor forward(Ops& op, const Tensor& x, const PatchGrid& grid) = 0;
};

struct TowerSpec {
  int32_t token = 0;  // the placeholder of an image
  PictureText text;
  PatchShape patches;
  int64_t hidden = 0;       // of the stream that its blocks share
  int64_t activations = 0;  // elements that a block's forward allocates per patch
  int n_blocks = 0;
  std::vector<int> deepstack_after;         // the block behind which each stream of deepstack is taken
  std::vector<std::string> prefixes;        // of its tensors, any of which a checkpoint may have
  std::vector<std::string> modules = {""};  // below the prefix: all that it consists of
  std::string first;                        // a tensor that it has in any case
};

class VisionTower {
 public:
  virtual ~VisionTower() = default;
  const TowerSpec& spec() const { return spec_; }

  /// Patches [n, patches.values()] to [n, hidden], in an order that is the tower's own; blocks keep shape and order; an
  /// output makes [n / merge², the model's hidden size], in the order of the squares, of what comes out of the last
  /// block, or for a stream of deepstack out of its own. `w` is positioned at the tower, and lives as long as the part.
  virtual std::unique_ptr<TowerPart> load_input(WeightLoader& loader, WeightBinder& w) const = 0;
  virtual std::unique_ptr<TowerPart> load_block(int block, WeightLoader& loader, WeightBinder& w) const = 0;
  virtual std::unique_ptr<TowerPart> load_output(WeightLoader& loader, WeightBinder& w) const = 0;
  /// Of spec().deepstack_after; a tower without any has none to load.
  virtual std::unique_ptr<TowerPart> load_deepstack(size_t, WeightLoader&, WeightBinder&) const { return nullptr; }

 protected:
  TowerSpec spec_;
};

}  // namespace kvcal
