// The vision tower of CLIP, without the projector behind it: every tile of a picture, or a picture that is not cut, is
// a square of patches behind a row of its own, each with a learned position.
#pragma once

#include "model/towers/clip_layer.h"
#include "model/vision_tower.h"

namespace kvcal {

struct ClipDims {
  DecoderDims layers{};  // sizes of its layers; n_layers: those that run
  PatchShape patches;

  int64_t tile_rows() const { return 1 + patches.side * patches.side; }
};

/// Of a config whose class projects what comes out of layer `feature_layer` by default: -2 is the last but one.
ClipDims read_clip(const Json& config, int64_t feature_layer);

/// Its rows are [tiles · (1 + patches), hidden]. Whoever has the projector sets what the spec says of names.
class ClipTower : public VisionTower {
 public:
  ClipTower(const ClipDims& dims, const ModelSpec& model);
  std::unique_ptr<TowerPart> load_input(WeightLoader& loader, WeightBinder& w) const override;
  std::unique_ptr<TowerPart> load_block(int block, WeightLoader& loader, WeightBinder& w) const override;

 private:
  ClipDims dims_;
};

}  // namespace kvcal
