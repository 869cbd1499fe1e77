// Blocks with layer norm and quick GELU, which see the whole picture.
#include "model/towers/qwen2_vl_tower.h"

#include <utility>

#include "model/config_reading.h"
#include "model/towers/clip_layer.h"
#include "model/towers/qwen_tower_parts.h"

namespace kvcal {
namespace {

class Qwen2VlInput final : public TowerPart {
 public:
  Qwen2VlInput(const QwenTowerDims& dims, WeightLoader& loader, WeightBinder& w)
      : projection_(load_patch_projection(dims, loader, w, Bias::None)) {}
  Tensor forward(Ops& op, const Tensor& x, const PatchGrid&) override { return op.linear(x, projection_); }

 private:
  Linear projection_;  // [hidden, patch]
};

class Qwen2VlBlock final : public TowerPart {
 public:
  Qwen2VlBlock(const QwenTowerDims& dims, const RopeSpec& rope, WeightLoader& loader, WeightBinder w)
      : merge_(dims.patches.merge),
        norm1_(load_layer_norm(loader, w, "norm1", dims.hidden, kQwenTowerEps)),
        norm2_(load_layer_norm(loader, w, "norm2", dims.hidden, kQwenTowerEps)),
        attention_(dims, rope, loader, w),
        mlp_(loader, w.at("mlp."), dims.hidden, dims.ffn) {}

  Tensor forward(Ops& op, const Tensor& x, const PatchGrid& grid) override {
    const Tensor y = op.add(x, attention_.forward(op, norm1_.forward(op, x), whole_picture(grid, merge_)));
    return op.add(y, mlp_.forward(op, norm2_.forward(op, y)));
  }

 private:
  int64_t merge_;
  Norm norm1_, norm2_;  // [hidden]
  PatchAttention attention_;
  QuickGeluMlp mlp_;
};

class Qwen2VlTower final : public VisionTower {
 public:
  Qwen2VlTower(const QwenTowerDims& dims, TowerSpec spec) : dims_(dims), rope_(qwen_tower_rope(dims)) {
    spec_ = std::move(spec);
  }

  std::unique_ptr<TowerPart> load_input(WeightLoader& loader, WeightBinder& w) const override {
    return std::make_unique<Qwen2VlInput>(dims_, loader, w);
  }
  std::unique_ptr<TowerPart> load_block(int block, WeightLoader& loader, WeightBinder& w) const override {
    return std::make_unique<Qwen2VlBlock>(dims_, rope_, loader, w.at("blocks." + std::to_string(block) + "."));
  }
  std::unique_ptr<TowerPart> load_output(WeightLoader& loader, WeightBinder& w) const override {
    WeightBinder merger = w.at("merger.");
    Norm norm = load_layer_norm(loader, merger, "ln_q", dims_.hidden, kQwenTowerEps);
    return std::make_unique<PatchMerger>(std::move(norm), dims_.hidden, dims_.merged(),
                                         load_merger_mlp(dims_, loader, merger, "mlp.0", "mlp.2"));
  }

 private:
  QwenTowerDims dims_;
  RopeSpec rope_;
};

}  // namespace

std::unique_ptr<VisionTower> read_qwen2_vl_tower(const Json& config, const ModelSpec& model) {
  const Json& vision = vision_config(config);
  QwenTowerDims dims;
  dims.hidden = read_size(vision, "embed_dim", 1280);
  dims.ffn = dims.hidden * read_size(vision, "mlp_ratio", 4);
  dims.out_hidden = read_size(vision, "hidden_size", 3584);
  read_heads_and_patches(vision, 14, dims);
  check_tower(vision, dims, {"embed_dim", "hidden_size"}, model);
  expect_word(vision, "hidden_act", "quick_gelu");
  return std::make_unique<Qwen2VlTower>(dims, qwen_tower_spec(config, dims, read_size(vision, "depth", 32)));
}

}  // namespace kvcal
