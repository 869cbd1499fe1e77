// The vision tower of Pixtral, without the projector behind it, in which the classes with this tower differ.
#pragma once

#include "model/layers/decoder_parts.h"
#include "model/vision_tower.h"

namespace kvcal {

struct PixtralDims {
  DecoderDims layers{};  // sizes of its layers
  PatchShape patches;
  Activation act = Activation::Gelu;
  RopeSpec rope;

  int64_t merged() const { return layers.hidden * patches.merge * patches.merge; }
};

/// Of a config whose class projects what comes out of block `feature_layer` by default; merge x merge patches become a
/// row. Throws Error where that is not the last block, -1.
PixtralDims read_pixtral(const Json& config, int64_t merge, int64_t feature_layer);

class PixtralTower : public VisionTower {
 public:
  PixtralTower(PixtralDims dims, const ModelSpec& model);
  std::unique_ptr<TowerPart> load_input(WeightLoader& loader, WeightBinder& w) const override;
  std::unique_ptr<TowerPart> load_block(int block, WeightLoader& loader, WeightBinder& w) const override;

 protected:
  PixtralDims dims_;
};

}  // namespace kvcal
