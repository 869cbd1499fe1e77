// What the towers of CLIP and SigLIP have in common.
#pragma once

#include <functional>

#include "model/layers/decoder_parts.h"
#include "model/vision_tower.h"

namespace kvcal {

/// Of a class, for missing keys.
struct ClipDefaults {
  double eps;
  int64_t hidden = 768, n_heads = 12;
};

/// Sizes of the layers of a vision_config. Throws Error where they do not fit each other.
DecoderDims read_clip_layers(const Json& vision, const ClipDefaults& defaults);

/// How many of `n` layers run: up to the one that this key counts from the end, -1 is the last.
int64_t read_n_seen(const Json& config, const char* key, int64_t n, int64_t fallback);

/// Throws Error unless image_size has whole patches of patch_size, not too many.
void expect_clip_patches(int64_t image_size, int64_t patch_size);

/// The same where a tile may have some pixels more than its patches.
void expect_tile_patches(int64_t image_size, int64_t patch_size);

/// Below "vision_tower."; older files have one more module around it.
WeightBinder clip_weights(const WeightBinder& w);

/// "patch_embedding" of the binder: [hidden, patch].
Linear load_clip_patches(WeightLoader& loader, WeightBinder& w, const DecoderDims& dims, const PatchShape& patches,
                         Bias bias);

/// x · sigmoid(1.702 x) between "fc1" and "fc2" of the binder's module, each step rounded.
class QuickGeluMlp {
 public:
  QuickGeluMlp(WeightLoader& loader, WeightBinder w, int64_t hidden, int64_t ffn);
  Tensor forward(Ops& op, const Tensor& x) const;  // [rows, hidden] -> the same

 private:
  Linear up_, down_;  // [ffn, hidden], [hidden, ffn]
};

struct ClipLayerDims {
  const DecoderDims& sizes;  // lives as long as the layer
  int64_t tile;              // rows of a tile, or of a picture that is not cut
};

/// A layer with layer norms and biases, in which all rows of a tile see each other.
class ClipLayer final : public TowerPart {
 public:
  using FeedForward = std::function<Tensor(Ops& op, const Tensor& x)>;
  ClipLayer(const ClipLayerDims& dims, FeedForward mlp, WeightLoader& loader, WeightBinder w);
  Tensor forward(Ops& op, const Tensor& x, const PatchGrid& grid) override;

 private:
  const DecoderDims& d_;
  int64_t tile_;
  Norm norm1_, norm2_;  // [hidden]
  LinearGroup qkv_;     // [hidden, hidden] x3
  Linear out_;          // [hidden, hidden]
  FeedForward mlp_;
};

}  // namespace kvcal
