// The vision tower of SigLIP, without the projector behind it, in which the classes with this tower differ.
#pragma once

#include <vector>

#include "model/layers/decoder_parts.h"
#include "model/vision_tower.h"

namespace kvcal {

struct SiglipDims {
  DecoderDims layers{};  // sizes of its layers
  PatchShape patches;
  Activation act = Activation::GeluTanh;
  std::vector<int32_t> along;  // [side]: where a patch lies on an edge of the table of positions, side x side

  int64_t tile() const { return patches.side * patches.side; }  // patches of a tile, or of a picture that is not cut
};

/// Loads nothing behind its blocks but the last norm.
class SiglipTower : public VisionTower {
 public:
  SiglipTower(SiglipDims dims, const ModelSpec& model);
  std::unique_ptr<TowerPart> load_input(WeightLoader& loader, WeightBinder& w) const override;
  std::unique_ptr<TowerPart> load_block(int block, WeightLoader& loader, WeightBinder& w) const override;

 protected:
  /// What the layers are below.
  virtual WeightBinder siglip_weights(const WeightBinder& w) const;
  Norm load_last_norm(WeightLoader& loader, const WeightBinder& w) const;  // [hidden]

  SiglipDims dims_;
};

}  // namespace kvcal
