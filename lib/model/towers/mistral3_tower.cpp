#include "model/towers/mistral3_tower.h"

#include <utility>

#include "model/layers/weight_rows.h"
#include "model/towers/llava_projector.h"
#include "model/towers/pixtral_tower.h"

namespace kvcal {
namespace {

struct Mistral3Projector {
  float eps = 0;  // of its norm: the language model's
  LlavaProjector end;
};

class Mistral3Output final : public TowerPart {
 public:
  Mistral3Output(const PixtralDims& dims, const Mistral3Projector& projector, WeightLoader& loader, WeightBinder w)
      : merged_(dims.merged()), mlp_(load_llava_projector(projector.end, loader, w)) {
    const int64_t hidden = dims.layers.hidden;
    norm_ = {Norm::Kind::Rms, projector.eps, loader.load_gain(w("norm.weight", {hidden}), Gain::Plain), {}};
    const Tensor weight = w("patch_merger.merging_layer.weight", {hidden, merged_});
    // Of all patches the first channel, then the second one, and so on; rows have the channels of each side by side.
    merger_ = loader.load_linear(swapped_columns(weight, hidden, merged_ / hidden).tensor());
  }

  Tensor forward(Ops& op, const Tensor& x, const PatchGrid&) override {
    const Tensor normed = norm_.forward(op, x);
    return op.glu_mlp(op.linear(normed.reshaped({x.elements() / merged_, merged_}), merger_), mlp_);
  }

 private:
  int64_t merged_;
  Norm norm_;      // [hidden]
  Linear merger_;  // [hidden, merged]
  GluWeights mlp_;
};

class Mistral3Tower final : public PixtralTower {
 public:
  Mistral3Tower(PixtralDims dims, const Mistral3Projector& projector, const ModelSpec& model)
      : PixtralTower(std::move(dims), model), projector_(projector) {}

  std::unique_ptr<TowerPart> load_output(WeightLoader& loader, WeightBinder& w) const override {
    return std::make_unique<Mistral3Output>(dims_, projector_, loader, w.at("multi_modal_projector."));
  }

 private:
  Mistral3Projector projector_;
};

}  // namespace

std::unique_ptr<VisionTower> read_mistral3_tower(const Json& config, const ModelSpec& model) {
  const Json& text = text_config(config);
  const bool ministral = get_string_or(text, "model_type", "mistral") == "ministral3";
  PixtralDims dims = read_pixtral(config, read_size(config, "spatial_merge_size", 2), -1);
  Mistral3Projector projector;
  projector.eps = static_cast<float>(get_number_or(text, "rms_norm_eps", ministral ? 1e-5 : 1e-6));
  projector.end = read_llava_projector(config, dims.layers.hidden, Bias::None, model);
  return std::make_unique<Mistral3Tower>(std::move(dims), projector, model);
}

}  // namespace kvcal
