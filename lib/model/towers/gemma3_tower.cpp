// SigLIP on a picture that is made a square; behind it the patches of a small square become one row, their mean
// (docs/model-notes.md, "Images").
#include "model/towers/gemma3_tower.h"

#include <cmath>
#include <numeric>
#include <utility>

#include "model/config_reading.h"
#include "model/layers/weight_rows.h"
#include "model/towers/clip_layer.h"
#include "model/towers/patch_rows.h"
#include "model/towers/siglip_tower.h"

namespace kvcal {
namespace {

class Gemma3Output final : public TowerPart {
 public:
  Gemma3Output(int64_t per_row, Norm last_norm, float eps, Owned gain, Linear projection)
      : per_row_(per_row),
        last_norm_(std::move(last_norm)),
        eps_(eps),
        gain_(std::move(gain)),
        projection_(std::move(projection)) {}

  Tensor forward(Ops& op, const Tensor& x, const PatchGrid&) override {
    const Tensor pooled = mean_of_rows(op, last_norm_.forward(op, x), per_row_);
    return op.linear(op.rms_norm(pooled, gain_, eps_), projection_);
  }

 private:
  int64_t per_row_;
  Norm last_norm_;  // [hidden]
  float eps_;
  Owned gain_;         // [hidden]
  Linear projection_;  // [the model's hidden size, hidden]
};

class Gemma3Tower final : public SiglipTower {
 public:
  Gemma3Tower(SiglipDims dims, const ModelSpec& model)
      : SiglipTower(std::move(dims), model), out_hidden_(model.hidden) {
    spec_.text = {"<start_of_image>", "\n\n<start_of_image><image_soft_token><end_of_image>\n\n"};
    spec_.prefixes = {"", "model."};
    spec_.modules = {"multi_modal_projector.", "vision_tower."};
    spec_.first = "multi_modal_projector.mm_input_projection_weight";
  }

  std::unique_ptr<TowerPart> load_output(WeightLoader& loader, WeightBinder& w) const override {
    const int64_t hidden = dims_.layers.hidden, merge = dims_.patches.merge;
    WeightBinder projector = w.at("multi_modal_projector.");
    const Tensor weight = projector("mm_input_projection_weight", {hidden, out_hidden_});
    return std::make_unique<Gemma3Output>(
        merge * merge, load_last_norm(loader, w), dims_.layers.eps,
        loader.load_gain(projector("mm_soft_emb_norm.weight", {hidden}), Gain::OnePlus),
        loader.load_linear(transposed(weight).tensor()));
  }

 private:
  int64_t out_hidden_;
};

/// The mean of squares of merge x merge patches makes as many rows as mm_tokens_per_image.
PatchShape read_patches(const Json& config, const Json& vision) {
  const int64_t image = read_size(vision, "image_size", 224), size = read_size(vision, "patch_size", 16);
  const int64_t rows = read_size(config, "mm_tokens_per_image", 256), side = image / size;
  const auto per_side = static_cast<int64_t>(std::sqrt(static_cast<double>(rows)));
  expect_clip_patches(image, size);
  expect_size("mm_tokens_per_image", per_side * per_side == rows && side % per_side == 0, rows,
              "a square number whose root divides " + std::to_string(side));
  return {size, side / per_side, 1, kGemma3Processor, side};
}

}  // namespace

std::unique_ptr<VisionTower> read_gemma3_tower(const Json& config, const ModelSpec& model) {
  const Json& vision = vision_config(config);
  expect_word(vision, "model_type", "siglip_vision_model");
  SiglipDims dims;
  dims.layers = read_clip_layers(vision, {1e-6});
  dims.patches = read_patches(config, vision);
  dims.act = read_activation(vision, "hidden_act", dims.act);
  dims.along.resize(static_cast<size_t>(dims.patches.side));
  std::iota(dims.along.begin(), dims.along.end(), 0);
  return std::make_unique<Gemma3Tower>(std::move(dims), model);
}

}  // namespace kvcal
