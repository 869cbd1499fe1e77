// Every tile of a picture is a square of patches, each with a learned position; blocks have layer norm and see the
// whole tile (docs/model-notes.md, "Images").
#include "model/towers/siglip_tower.h"

#include <utility>

#include "model/towers/clip_layer.h"

namespace kvcal {
namespace {

class SiglipInput final : public TowerPart {
 public:
  SiglipInput(const SiglipDims& dims, WeightLoader& loader, WeightBinder w) {
    const int64_t side = dims.patches.side;
    projection_ = load_clip_patches(loader, w, dims.layers, dims.patches, Bias::Present);
    table_ = w("position_embedding.weight", {dims.tile(), dims.layers.hidden});
    for (int64_t i = 0; i < dims.tile(); ++i) {
      const PatchPlace place = place_of(i, {side, side}, dims.patches.merge);
      const auto along = [&](int64_t at) { return dims.along[static_cast<size_t>(at)]; };
      positions_.push_back(along(place.row) * static_cast<int32_t>(side) + along(place.column));
    }
  }

  Tensor forward(Ops& op, const Tensor& x, const PatchGrid&) override {
    std::vector<int32_t> positions;
    while (static_cast<int64_t>(positions.size()) < x.dim(0))
      positions.insert(positions.end(), positions_.begin(), positions_.end());
    return op.add(op.linear(x, projection_), op.embed(table_, positions));
  }

 private:
  Linear projection_;               // [hidden, patch]
  Tensor table_;                    // [tile, hidden], by rows of the picture
  std::vector<int32_t> positions_;  // [tile]
};

}  // namespace

SiglipTower::SiglipTower(SiglipDims dims, const ModelSpec& model) : dims_(std::move(dims)) {
  const DecoderDims& d = dims_.layers;
  spec_.token = model.placeholders.front();
  spec_.patches = dims_.patches;
  spec_.hidden = d.hidden;
  spec_.activations = 12 * d.hidden + 3 * d.ffn + 2 * dims_.patches.values();
  spec_.n_blocks = static_cast<int>(d.n_layers);
}

WeightBinder SiglipTower::siglip_weights(const WeightBinder& w) const { return clip_weights(w); }

Norm SiglipTower::load_last_norm(WeightLoader& loader, const WeightBinder& w) const {
  WeightBinder siglip = siglip_weights(w);
  return load_layer_norm(loader, siglip, "post_layernorm", dims_.layers.hidden, dims_.layers.eps);
}

std::unique_ptr<TowerPart> SiglipTower::load_input(WeightLoader& loader, WeightBinder& w) const {
  return std::make_unique<SiglipInput>(dims_, loader, siglip_weights(w).at("embeddings."));
}

std::unique_ptr<TowerPart> SiglipTower::load_block(int block, WeightLoader& loader, WeightBinder& w) const {
  WeightBinder layer = siglip_weights(w).at("encoder.layers." + std::to_string(block) + ".");
  const DecoderDims& d = dims_.layers;
  const GluWeights mlp = loader.load_mlp(projection(layer, "mlp.fc1", d.ffn, d.hidden, Bias::Present),
                                         projection(layer, "mlp.fc2", d.hidden, d.ffn, Bias::Present), dims_.act);
  return std::make_unique<ClipLayer>(
      ClipLayerDims{d, dims_.tile()}, [mlp](Ops& op, const Tensor& x) { return op.glu_mlp(x, mlp); }, loader, layer);
}

}  // namespace kvcal
