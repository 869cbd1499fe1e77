// SigLIP on the tiles of a picture; behind it the patches of a small square, side by side, become one row
// (docs/model-notes.md, "Images").
#include "model/towers/idefics3_tower.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "model/config_reading.h"
#include "model/towers/clip_layer.h"
#include "model/towers/siglip_tower.h"

namespace kvcal {
namespace {

constexpr std::string_view kAround = "<fake_token_around_image>";

class Idefics3Output final : public TowerPart {
 public:
  Idefics3Output(int64_t merged, Norm last_norm, Linear projection)
      : merged_(merged), last_norm_(std::move(last_norm)), projection_(std::move(projection)) {}

  Tensor forward(Ops& op, const Tensor& x, const PatchGrid&) override {
    return op.linear(last_norm_.forward(op, x).reshaped({x.elements() / merged_, merged_}), projection_);
  }

 private:
  int64_t merged_;
  Norm last_norm_;     // [hidden]
  Linear projection_;  // [the model's hidden size, merged]
};

/// Each tile by its row and column in the picture, then the whole picture.
std::vector<PicturePart> parts_by_tile(const PatchGrid& squares) {
  const std::string around(kAround);
  const int64_t n = squares.width * squares.width, n_tiles = squares.height / squares.width - 1;
  std::vector<PicturePart> parts;
  for (int64_t i = 0; i < n_tiles; ++i) {
    const int64_t row = i / squares.tile_columns, column = i % squares.tile_columns;
    parts.push_back({(row > 0 && column == 0 ? "\n" : "") + around + "<row_" + std::to_string(row + 1) + "_col_" +
                         std::to_string(column + 1) + ">",
                     n});
  }
  parts.push_back({(n_tiles > 0 ? "\n\n" : "") + around + "<global-img>", n});
  parts.push_back({around, 0});
  return parts;
}

class Idefics3Tower final : public SiglipTower {
 public:
  Idefics3Tower(SiglipDims dims, const ModelSpec& model)
      : SiglipTower(std::move(dims), model), out_hidden_(model.hidden) {
    spec_.text = {{}, {}, {kAround}, parts_by_tile};
    spec_.prefixes = {"model."};
    spec_.modules = {"connector.", "vision_model."};
    spec_.first = "connector.modality_projection.proj.weight";
  }

  std::unique_ptr<TowerPart> load_output(WeightLoader& loader, WeightBinder& w) const override {
    const int64_t merged = dims_.layers.hidden * dims_.patches.merge * dims_.patches.merge;
    WeightBinder connector = w.at("connector.modality_projection.");
    return std::make_unique<Idefics3Output>(merged, load_last_norm(loader, w),
                                            load_projection(loader, connector, "proj", out_hidden_, merged));
  }

 private:
  WeightBinder siglip_weights(const WeightBinder& w) const override { return w.at("vision_model."); }

  int64_t out_hidden_;
};

/// 1/side, 2/side and so on below 1, as torch.arange rounds them: pairs of eights, each from its rounded first one, and
/// what is left by itself. Where a fraction is rounded below the border that it begins at, its patch shares the
/// position of the one before, as in the reference framework: of 19 patches that at 12; none of 26, 27 or 32.
std::vector<float> fraction_borders(int64_t side) {
  const double step = 1.0 / static_cast<double>(side);
  const auto at = [step](int64_t i) { return static_cast<float>(step + static_cast<double>(i) * step); };
  std::vector<float> borders;
  const auto n = static_cast<int64_t>(std::ceil((1.0 - step) / step));
  for (int64_t i = 0; i < n; ++i) {
    const bool alone = i >= n / 16 * 16;
    borders.push_back(alone ? at(i) : static_cast<float>(at(i / 8 * 8) + static_cast<double>(i % 8) * step));
  }
  return borders;
}

std::unique_ptr<VisionTower> read_tower_with(std::string_view processor, const Json& config, const ModelSpec& model) {
  const Json& vision = vision_config(config);
  const int64_t image = read_size(vision, "image_size", 224), size = read_size(vision, "patch_size", 32);
  const int64_t merge = read_size(config, "scale_factor", 2), side = image / size;
  expect_tile_patches(image, size);
  expect_size("scale_factor", side % merge == 0, merge, "a divisor of " + std::to_string(side));
  SiglipDims dims;
  dims.layers = read_clip_layers(vision, {1e-6, 1152, 16});
  dims.patches = {size, merge, 1, processor, side};
  dims.act = read_activation(vision, "hidden_act", dims.act);
  dims.along = positions_by_fraction(side);
  return std::make_unique<Idefics3Tower>(std::move(dims), model);
}

}  // namespace

std::vector<int32_t> positions_by_fraction(int64_t side) {
  const std::vector<float> borders = fraction_borders(side);
  std::vector<int32_t> positions;
  for (int64_t i = 0; i < side; ++i) {
    const float fraction = static_cast<float>(i) * (1.0f / static_cast<float>(side));
    positions.push_back(static_cast<int32_t>(std::ranges::upper_bound(borders, fraction) - borders.begin()));
  }
  return positions;
}

std::unique_ptr<VisionTower> read_idefics3_tower(const Json& config, const ModelSpec& model) {
  return read_tower_with(kIdefics3Processor, config, model);
}

std::unique_ptr<VisionTower> read_smolvlm_tower(const Json& config, const ModelSpec& model) {
  return read_tower_with(kSmolVlmProcessor, config, model);
}

}  // namespace kvcal
