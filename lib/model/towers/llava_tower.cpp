#include "model/towers/llava_tower.h"

#include <numeric>
#include <utility>

#include "model/towers/clip_tower.h"
#include "model/towers/llava_projector.h"
#include "model/towers/pixtral_tower.h"

namespace kvcal {
namespace {

constexpr const char* kProjector = "multi_modal_projector.";
constexpr int64_t kFeatureLayer = -2;  // where the config is silent

class PixtralOutput final : public TowerPart {
 public:
  explicit PixtralOutput(GluWeights mlp) : mlp_(std::move(mlp)) {}
  Tensor forward(Ops& op, const Tensor& x, const PatchGrid&) override { return op.glu_mlp(x, mlp_); }

 private:
  GluWeights mlp_;
};

class LlavaPixtralTower final : public PixtralTower {
 public:
  LlavaPixtralTower(PixtralDims dims, const LlavaProjector& projector, const ModelSpec& model)
      : PixtralTower(std::move(dims), model), projector_(projector) {}

  std::unique_ptr<TowerPart> load_output(WeightLoader& loader, WeightBinder& w) const override {
    WeightBinder projector = w.at(kProjector);
    return std::make_unique<PixtralOutput>(load_llava_projector(projector_, loader, projector));
  }

 private:
  LlavaProjector projector_;
};

/// Without the row in front, which stands for no patch.
class ClipOutput final : public TowerPart {
 public:
  explicit ClipOutput(GluWeights mlp) : mlp_(std::move(mlp)) {}

  Tensor forward(Ops& op, const Tensor& x, const PatchGrid& grid) override {
    std::vector<int64_t> rows(static_cast<size_t>(grid.n_patches()));
    std::iota(rows.begin(), rows.end(), 1);
    return op.glu_mlp(op.take_rows(x, rows), mlp_);
  }

 private:
  GluWeights mlp_;
};

class LlavaClipTower final : public ClipTower {
 public:
  LlavaClipTower(const ClipDims& dims, const LlavaProjector& projector, const ModelSpec& model)
      : ClipTower(dims, model), projector_(projector) {
    spec_.modules = {kProjector, "vision_tower."};
    spec_.first = "multi_modal_projector.linear_1.weight";
  }

  std::unique_ptr<TowerPart> load_output(WeightLoader& loader, WeightBinder& w) const override {
    WeightBinder projector = w.at(kProjector);
    return std::make_unique<ClipOutput>(load_llava_projector(projector_, loader, projector));
  }

 private:
  LlavaProjector projector_;
};

}  // namespace

std::unique_ptr<VisionTower> read_llava_tower(const Json& config, const ModelSpec& model) {
  const std::string type = get_string_or(vision_config(config), "model_type", "clip_vision_model");
  const auto projector = [&](int64_t in) { return read_llava_projector(config, in, Bias::Present, model); };
  if (type == "clip_vision_model") {
    expect_strategy(config, "default", "default");
    const ClipDims dims = read_clip(config, kFeatureLayer);
    return std::make_unique<LlavaClipTower>(dims, projector(dims.layers.hidden), model);
  }
  if (type != "pixtral") fail("model_type is " + quoted(type) + ", expected clip_vision_model or pixtral");
  expect_strategy(config, "default", "full");
  PixtralDims dims = read_pixtral(config, 1, kFeatureLayer);
  const LlavaProjector end = projector(dims.layers.hidden);
  return std::make_unique<LlavaPixtralTower>(std::move(dims), end, model);
}

}  // namespace kvcal
