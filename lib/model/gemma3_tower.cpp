// Every picture is a square of patches, each with a learned position; blocks have layer norm and see the whole picture;
// behind them the patches of a small square become one row, their mean (docs/model-notes.md, "Images").
#include "model/gemma3_tower.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/clip_layer.h"
#include "model/config_reading.h"
#include "model/weight_rows.h"
#include "tensor/dtype.h"

namespace kvcal {
namespace {

struct Gemma3Dims {
  DecoderDims siglip{};  // sizes of its layers
  int64_t out_hidden = 0;
  PatchShape patches;
  Activation act = Activation::GeluTanh;

  PatchGrid grid() const { return {patches.side, patches.side}; }
};

class SiglipInput final : public TowerPart {
 public:
  SiglipInput(const Gemma3Dims& dims, WeightLoader& loader, WeightBinder w) {
    WeightBinder embeddings = w.at("embeddings.");
    projection_ = load_clip_patches(loader, embeddings, dims.siglip, dims.patches, Bias::Present);
    table_ = embeddings("position_embedding.weight", {dims.grid().n_patches(), dims.siglip.hidden});
    for (int64_t i = 0; i < dims.grid().n_patches(); ++i) {
      const PatchPlace place = place_of(i, dims.grid(), dims.patches.merge);
      positions_.push_back(static_cast<int32_t>(place.row * dims.patches.side + place.column));
    }
  }

  Tensor forward(Ops& op, const Tensor& x, const PatchGrid&) override {
    return op.add(op.linear(x, projection_), op.embed(table_, positions_));
  }

 private:
  Linear projection_;               // [hidden, patch]
  Tensor table_;                    // [patches, hidden], by rows of the picture
  std::vector<int32_t> positions_;  // [patches]
};

/// x [rows · n, hidden] -> [rows, hidden]: the mean of every n rows, in F32, rounded once.
Tensor mean_of_rows(Ops& op, const Tensor& x, int64_t n) {
  const int64_t hidden = x.dim(1);
  const Storage all(x.shape, x.dtype), means({x.dim(0) / n, hidden}, x.dtype);
  op.download(x, all.tensor());
  std::vector<float> row(static_cast<size_t>(hidden)), mean(row.size());
  for (int64_t i = 0; i < x.dim(0); ++i) {
    if (i % n == 0) std::fill(mean.begin(), mean.end(), 0.0f);
    convert_to_float(x.dtype, all.tensor().rows(i, 1).data, row.data(), row.size());
    for (size_t c = 0; c < row.size(); ++c) mean[c] += row[c];
    if (i % n < n - 1) continue;
    for (float& value : mean) value /= static_cast<float>(n);
    const Tensor to = means.tensor().rows(i / n, 1);
    if (x.dtype == DType::F32) {
      std::copy(mean.begin(), mean.end(), to.as<float>());
    } else {
      convert_to_bf16(DType::F32, mean.data(), to.as<bf16>(), mean.size());
    }
  }
  return op.upload(means.tensor());
}

class Gemma3Output final : public TowerPart {
 public:
  Gemma3Output(const Gemma3Dims& dims, WeightLoader& loader, WeightBinder siglip, WeightBinder projector)
      : eps_(dims.siglip.eps),
        per_row_(dims.patches.merge * dims.patches.merge),
        last_norm_(load_layer_norm(loader, siglip, "post_layernorm", dims.siglip.hidden, eps_)),
        gain_(loader.load_gain(projector("mm_soft_emb_norm.weight", {dims.siglip.hidden}), Gain::OnePlus)) {
    const Tensor weight = projector("mm_input_projection_weight", {dims.siglip.hidden, dims.out_hidden});
    projection_ = loader.load_linear(transposed(weight).tensor());
  }

  Tensor forward(Ops& op, const Tensor& x, const PatchGrid&) override {
    const Tensor pooled = mean_of_rows(op, last_norm_.forward(op, x), per_row_);
    return op.linear(op.rms_norm(pooled, gain_, eps_), projection_);
  }

 private:
  float eps_;
  int64_t per_row_;
  Norm last_norm_;     // [hidden]
  Owned gain_;         // [hidden]
  Linear projection_;  // [the model's hidden size, hidden]
};

class Gemma3Tower final : public VisionTower {
 public:
  Gemma3Tower(const Gemma3Dims& dims, TowerSpec spec) : dims_(dims) { spec_ = std::move(spec); }

  std::unique_ptr<TowerPart> load_input(WeightLoader& loader, WeightBinder& w) const override {
    return std::make_unique<SiglipInput>(dims_, loader, clip_weights(w));
  }
  std::unique_ptr<TowerPart> load_block(int block, WeightLoader& loader, WeightBinder& w) const override {
    WeightBinder layer = clip_weights(w).at("encoder.layers." + std::to_string(block) + ".");
    const DecoderDims& d = dims_.siglip;
    const GluWeights mlp = loader.load_mlp(projection(layer, "mlp.fc1", d.ffn, d.hidden, Bias::Present),
                                           projection(layer, "mlp.fc2", d.hidden, d.ffn, Bias::Present), dims_.act);
    return std::make_unique<ClipLayer>(
        d, [mlp](Ops& op, const Tensor& x) { return op.glu_mlp(x, mlp); }, loader, layer);
  }
  std::unique_ptr<TowerPart> load_output(WeightLoader& loader, WeightBinder& w) const override {
    return std::make_unique<Gemma3Output>(dims_, loader, clip_weights(w), w.at("multi_modal_projector."));
  }

 private:
  Gemma3Dims dims_;
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

Gemma3Dims read_dims(const Json& config, const Json& vision, const ModelSpec& model) {
  Gemma3Dims dims;
  dims.siglip = read_clip_layers(vision, 1e-6);
  dims.out_hidden = model.hidden;
  dims.patches = read_patches(config, vision);
  dims.act = read_activation(vision, "hidden_act", dims.act);
  if (const std::string type = get_string_or(vision, "model_type", "siglip_vision_model");
      type != "siglip_vision_model")
    fail("model_type is " + quoted(type) + ", expected siglip_vision_model");
  return dims;
}

}  // namespace

std::unique_ptr<VisionTower> read_gemma3_tower(const Json& config, const ModelSpec& model) {
  const Gemma3Dims dims = read_dims(config, vision_config(config), model);
  TowerSpec spec;
  spec.token = model.placeholders.front();
  spec.text = {"<start_of_image>", "\n\n<start_of_image><image_soft_token><end_of_image>\n\n"};
  spec.patches = dims.patches;
  spec.hidden = dims.siglip.hidden;
  spec.activations = 12 * dims.siglip.hidden + 3 * dims.siglip.ffn + 2 * dims.patches.values();
  spec.n_blocks = static_cast<int>(dims.siglip.n_layers);
  spec.prefixes = {"", "model."};
  spec.modules = {"multi_modal_projector.", "vision_tower."};
  spec.first = "multi_modal_projector.mm_input_projection_weight";
  return std::make_unique<Gemma3Tower>(dims, std::move(spec));
}

}  // namespace kvcal
