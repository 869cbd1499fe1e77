// InternViT and the projector behind it, whatever a checkpoint calls their weights: each tile of a picture is a square
// of patches with a learned position each, led by a token of its class; a square of patches becomes one row
// (docs/model-notes.md, "Images").
#pragma once

#include <string>
#include <vector>

#include "model/layers/decoder_parts.h"
#include "model/vision_tower.h"

namespace kvcal {

struct InternVitDims {
  int64_t hidden = 0, ffn = 0, n_heads = 0, n_layers = 0;
  float eps = 0;
  Norm::Kind norm = Norm::Kind::Layer;  // of its blocks
  Activation act = Activation::Gelu;
  PatchShape patches;

  int64_t tile() const { return patches.side * patches.side; }  // patches of a tile
  int64_t tile_rows() const { return tile() + 1; }              // led by the class
  int64_t merged() const { return hidden * patches.merge * patches.merge; }
};

/// norm_type. Throws Error for another than InternViT has.
Norm::Kind read_intern_norm(const Json& vision, const char* fallback);

/// downsample_ratio: squares of two by two patches become one row. Throws Error for another.
void check_downsampling(const Json& config);

/// RMSNorm over a row of the blocks.
Norm load_rms_norm(WeightLoader& loader, WeightBinder& w, const std::string& name, const InternVitDims& dims,
                   float eps);

/// A norm of the blocks' kind.
Norm load_block_norm(WeightLoader& loader, WeightBinder& w, const std::string& name, const InternVitDims& dims);

/// Throws Error where sizes do not fit each other.
void check_intern_vit(const InternVitDims& dims);

/// Without the names of its tensors.
TowerSpec intern_vit_spec(const InternVitDims& dims, const ModelSpec& model);

/// Patches [n, patch] -> [n + tiles, hidden].
class TileInput final : public TowerPart {
 public:
  /// Host tensors: the class [1, hidden], and positions [tile_rows, hidden] of it and of patches by rows of a tile.
  TileInput(const InternVitDims& dims, Linear projection, const Tensor& of_class, const Tensor& positions);
  Tensor forward(Ops& op, const Tensor& x, const PatchGrid& grid) override;

 private:
  InternVitDims dims_;
  Linear projection_;  // [hidden, patch]
  Tensor of_class_, positions_;
  std::vector<int32_t> order_;  // [tile_rows]: the position of each row
};

struct InternVitLayer {
  Norm norm1, norm2;    // [hidden]
  LinearGroup qkv;      // [hidden, hidden] x3
  Norm q_norm, k_norm;  // [hidden], of all heads together; or absent
  Linear out;           // [hidden, hidden]
  GluWeights mlp;
  Tensor scale1, scale2;  // [1, hidden], host: factors of what attention and feed-forward add
};

class InternVitBlock final : public TowerPart {
 public:
  InternVitBlock(const InternVitDims& dims, InternVitLayer weights);
  Tensor forward(Ops& op, const Tensor& x, const PatchGrid& grid) override;

 private:
  Tensor attend_in_tiles(Ops& op, const Tensor& x) const;

  InternVitDims dims_;
  InternVitLayer w_;
};

/// Without the rows of classes.
class TileOutput final : public TowerPart {
 public:
  TileOutput(const InternVitDims& dims, Norm norm, GluWeights mlp);
  Tensor forward(Ops& op, const Tensor& x, const PatchGrid& grid) override;

 private:
  InternVitDims dims_;
  Norm norm_;  // [merged]
  GluWeights mlp_;
};

}  // namespace kvcal
