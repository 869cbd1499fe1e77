// What the vision towers of Qwen are made of: patches that are projected, attention in which they see each other, and
// a merger that makes one row of a square of them (docs/model-notes.md, "Images").
#pragma once

#include <string>
#include <vector>

#include "model/layers/decoder_parts.h"
#include "model/towers/patch_rows.h"
#include "model/vision_tower.h"

namespace kvcal {

constexpr float kQwenTowerEps = 1e-6f;  // of all norms

struct QwenTowerDims {
  int64_t hidden = 0, ffn = 0, n_heads = 0, out_hidden = 0;
  PatchShape patches;
  Bias qkv = Bias::Present, out = Bias::Present;  // of attention
  int64_t head_dim() const { return hidden / n_heads; }
  int64_t merged() const { return hidden * patches.merge * patches.merge; }
};

/// Keys of a vision_config that name sizes in which the towers differ.
struct QwenTowerKeys {
  const char *hidden, *out_hidden;
};

/// num_heads, patch_size, spatial_merge_size and temporal_patch_size, with their defaults for missing keys.
void read_heads_and_patches(const Json& vision, int64_t default_patch_size, QwenTowerDims& dims);

/// Throws Error where sizes do not fit each other or the model, and for a base of the frequencies that is not known.
void check_tower(const Json& vision, const QwenTowerDims& dims, const QwenTowerKeys& keys, const ModelSpec& model);

/// Without deepstack. Throws Error where the config has no image_token_id.
TowerSpec qwen_tower_spec(const Json& config, const QwenTowerDims& dims, int64_t n_blocks);

/// Half of a head's pairs are rotated by row 0 of the positions, half by row 1, with the same frequencies.
RopeSpec qwen_tower_rope(const QwenTowerDims& dims);

/// "patch_embed.proj": [hidden, patch].
Linear load_patch_projection(const QwenTowerDims& dims, WeightLoader& loader, WeightBinder& w, Bias bias);

/// "attn.qkv" and "attn.proj" of a block.
class PatchAttention {
 public:
  PatchAttention(const QwenTowerDims& dims, const RopeSpec& rope, WeightLoader& loader, WeightBinder& w);
  Tensor forward(Ops& op, const Tensor& x, const PatchRows& rows) const;  // [patches, hidden] -> the same

 private:
  const QwenTowerDims& dims_;
  const RopeSpec& rope_;
  LinearGroup qkv_;  // [hidden, hidden] x3
  Linear out_;       // [hidden, hidden]
};

/// Normed before the patches of a square become one row, or as one row: the width of the norm tells.
class PatchMerger final : public TowerPart {
 public:
  PatchMerger(Norm norm, int64_t norm_width, int64_t merged, GluWeights mlp);
  Tensor forward(Ops& op, const Tensor& x, const PatchGrid& grid) override;

 private:
  Norm norm_;
  int64_t norm_width_, merged_;
  GluWeights mlp_;
};

/// Two layers with GELU between, by their names.
GluWeights load_merger_mlp(const QwenTowerDims& dims, WeightLoader& loader, WeightBinder& w, const std::string& first,
                           const std::string& second);

}  // namespace kvcal
